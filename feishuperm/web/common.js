"use strict";
// What the inbox and the page of a request have in common.

// The seconds left as people read them: 4:05, 1:04:05.
function counted(left) {
  var minutes = Math.floor(left / 60);
  var hours = minutes < 60 ? "" : Math.floor(minutes / 60) + ":";
  return hours + (hours ? two(minutes % 60) : minutes) + ":" + two(left % 60);
}

function two(number) {
  return ("0" + number).slice(-2);
}

var SOON = 15; // seconds left that look urgent

function showLeft(clock, left) {
  clock.textContent = left > 0 ? clock.dataset.text.replace("{left}", counted(left)) : clock.dataset.over;
  clock.classList.toggle("soon", left <= SOON);
}

// Nobody changes a command and has the old one run: whether a button that lets something
// happen has to wait, and the person is told which one is meant.
function changedCommand(pressed) {
  var request = pressed.closest(".request");
  var edit = request && request.querySelector("[data-edits]");
  var field = edit && request.querySelector("textarea[form=grant]");
  if (!edit || pressed === edit || pressed.getAttribute("form") !== "grant" || field.value === field.defaultValue) {
    return false;
  }
  request.querySelector(".told").textContent = edit.dataset.edits;
  return true;
}

// Listens to what the server tells of a state: `told(state)`, `connected(yes or no)`.
// Returns how to connect again, and how to end it.
function follow(address, tries, told, connected) {
  var source = null;
  var failed = 0;
  function open() {
    close();
    source = new EventSource(address);
    source.addEventListener("state", function (event) {
      failed = 0;
      connected(true);
      told(JSON.parse(event.data));
    });
    source.onopen = function () {
      connected(true);
    };
    source.onerror = function () {
      connected(false);
      // A browser gives up after an HTTP error; a restarting server deserves patience.
      if (source.readyState === EventSource.CLOSED && failed < tries) {
        failed += 1;
        setTimeout(open, Math.min(failed, 10) * 1000);
      }
    };
  }
  function close() {
    if (source) {
      source.close();
    }
  }
  window.addEventListener("pagehide", close);
  open();
  return { open: open, close: close };
}
