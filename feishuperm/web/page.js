// A countdown, the end of a request as it happens, one submit per page, no stale page
// after "back", the way to the inbox. What was typed stays where it is.
(function () {
  var clock = document.querySelector(".clock[data-left]");
  var over = clock ? Date.now() + Number(clock.dataset.left) * 1000 : 0;
  var TRIES = 5; // nobody may look any more
  var main = document.querySelector("main[data-events]");
  var stream = null;
  var ended = false;

  function show() {
    if (ended) {
      return;
    }
    var left = Math.ceil((over - Date.now()) / 1000);
    showLeft(clock, left);
    if (left <= 0) {
      freeze(true);
    }
    setTimeout(show, 250);
  }

  function freeze(frozen) {
    document.querySelectorAll(".request button").forEach((button) => (button.disabled = frozen));
  }

  function told(news) {
    if (news.waits) {
      if (clock && over < Date.now() && news.left > 0) {
        freeze(Boolean(document.body.dataset.sent)); // it has been given more time
      }
      over = Date.now() + news.left * 1000;
      return;
    }
    end(news);
    strike(news.undone);
    if (news.result && !document.querySelector("form.undo")) {
      stream.close();
    }
  }

  function end(news) {
    ended = true;
    var result = document.getElementById("result");
    if (result && news.result) {
      result.textContent = news.result;
      result.className = "result " + news.result_look;
      result.hidden = false;
    }
    var bar = document.querySelector(".bar");
    if (!bar) {
      return;
    }
    freeze(true);
    if (clock) {
      clock.textContent = clock.dataset.over;
      clock.hidden = Date.now() < over - 1000; // it ended before its time
      document.querySelector(".zero").hidden = true;
    }
    bar.querySelectorAll(".outcome").forEach((old) => old.remove());
    bar.insertAdjacentHTML("afterbegin", news.html);
  }

  // Rules that were undone, here or elsewhere.
  function strike(rules) {
    document.querySelectorAll("dd > code.rule").forEach(function (code) {
      if (rules.indexOf(code.textContent) >= 0) {
        var struck = document.createElement("s");
        struck.textContent = code.textContent;
        code.replaceChildren(struck);
      }
    });
    var form = document.querySelector("form.undo");
    if (rules.length && form) {
      form.remove();
    }
  }

  document.addEventListener("submit", function (event) {
    if (document.body.dataset.sent || changedCommand(event.submitter)) {
      event.preventDefault();
      return;
    }
    document.body.dataset.sent = "yes";
    if (stream) {
      stream.close(); // the page that follows shows the result
    }
    // Disabling at once would take the pressed button out of the form that is sent.
    setTimeout(() => document.querySelectorAll("button").forEach((button) => (button.disabled = true)), 0);
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
  if (main && window.EventSource) {
    stream = follow(main.dataset.events, TRIES, told, function () {});
  }
})();
