"use strict";
// A countdown, the end of a request as it happens, one submit per page, no stale page
// after "back", the way to the inbox. What was typed stays where it is.
(function () {
  var clock = document.querySelector(".clock[data-left]");
  var over = clock ? Date.now() + Number(clock.dataset.left) * 1000 : 0;
  var main = document.querySelector("main[data-events]");
  var source = null;
  var ended = false;
  var tries = 0;

  function show() {
    if (ended) {
      return;
    }
    var left = Math.ceil((over - Date.now()) / 1000);
    if (left <= 0) {
      clock.textContent = clock.dataset.over;
      clock.classList.add("soon");
      freeze(true);
    } else {
      clock.textContent = clock.dataset.text.replace("{left}", counted(left));
      clock.classList.toggle("soon", left <= 15);
    }
    setTimeout(show, 250);
  }

  function counted(left) {
    var minutes = Math.floor(left / 60);
    var hours = minutes < 60 ? "" : Math.floor(minutes / 60) + ":";
    return hours + (hours ? two(minutes % 60) : minutes) + ":" + two(left % 60);
  }

  function two(number) {
    return ("0" + number).slice(-2);
  }

  // Only what answers: what takes a rule back stays.
  function freeze(frozen) {
    document.querySelectorAll(".actions button").forEach(function (button) {
      button.disabled = frozen;
    });
  }

  function line(className, text) {
    var element = document.createElement("p");
    element.className = className;
    element.textContent = text;
    return element;
  }

  function follow() {
    source = new EventSource(main.dataset.events);
    source.addEventListener("state", function (event) {
      var news = JSON.parse(event.data);
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
        source.close();
      }
    });
    // A browser gives up after an HTTP error; a restarting server deserves patience.
    source.onerror = function () {
      if (source.readyState === EventSource.CLOSED && tries < 5) {
        tries += 1;
        setTimeout(follow, tries * 1000);
      }
    };
  }

  function end(news) {
    ended = true;
    var result = document.getElementById("result");
    if (result && news.result) {
      result.textContent = news.result;
      result.className = "result " + news.result_look;
      result.hidden = false;
    }
    var actions = document.querySelector(".actions");
    if (!actions) {
      return;
    }
    freeze(true);
    if (clock) {
      clock.textContent = clock.dataset.over;
      clock.hidden = Date.now() < over - 1000; // it ended before its time
      document.querySelector(".zero").hidden = true;
    }
    var old = document.querySelector(".actions > .outcome");
    var box = document.createElement("div");
    box.className = "outcome " + news.look;
    box.setAttribute("role", "status");
    box.textContent = news.title;
    news.lines.concat(news.result || []).forEach(function (text) {
      box.appendChild(line("", text));
    });
    if (old) {
      old.replaceWith(box);
    } else {
      actions.prepend(box);
    }
  }

  // Rules that were taken back, here or elsewhere.
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
    if (document.body.dataset.sent) {
      event.preventDefault();
      return;
    }
    document.body.dataset.sent = "yes";
    if (source) {
      source.close(); // the page that follows says what came of it
    }
    // Disabling at once would take the pressed button out of the form that is sent.
    setTimeout(function () {
      document.querySelectorAll("button").forEach(function (button) {
        button.disabled = true;
      });
    }, 0);
  });

  window.addEventListener("pagehide", function () {
    if (source) {
      source.close();
    }
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
    follow();
  }
})();
