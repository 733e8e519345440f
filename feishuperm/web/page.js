"use strict";
// A countdown, one submit per page, no stale page after "back", the way to the inbox.
(function () {
  var clock = document.querySelector(".clock[data-left]");
  var over = clock ? Date.now() + Number(clock.dataset.left) * 1000 : 0;

  function show() {
    var left = Math.ceil((over - Date.now()) / 1000);
    if (left <= 0) {
      clock.textContent = clock.dataset.over;
      clock.classList.add("soon");
      document.querySelectorAll("button").forEach(function (button) {
        button.disabled = true;
      });
      return;
    }
    var seconds = ("0" + (left % 60)).slice(-2);
    clock.textContent = clock.dataset.text.replace("{left}", Math.floor(left / 60) + ":" + seconds);
    clock.classList.toggle("soon", left <= 15);
    setTimeout(show, 250);
  }

  document.addEventListener("submit", function (event) {
    if (document.body.dataset.sent) {
      event.preventDefault();
      return;
    }
    document.body.dataset.sent = "yes";
    // Disabling at once would take the pressed button out of the form that is sent.
    setTimeout(function () {
      document.querySelectorAll("button").forEach(function (button) {
        button.disabled = true;
      });
    }, 0);
  });

  window.addEventListener("pageshow", function (event) {
    if (event.persisted && clock) {
      location.reload();
    }
  });

  try {
    var home = document.getElementById("home");
    home.href = sessionStorage.getItem("inbox") || "";
    home.hidden = !sessionStorage.getItem("inbox");
  } catch (error) {
    // storage is switched off: no link
  }

  if (clock) {
    show();
  }
})();
