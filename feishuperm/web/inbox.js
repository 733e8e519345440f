// The inbox: swaps in the rows that the server has drawn, and beside them the request
// that is selected; counts down, and posts what a person decides. All of it comes as
// HTML in which the server has escaped every text; no button is known here by its name.
(function () {
  var texts = JSON.parse(document.getElementById("texts").textContent);
  var STILL = 600; // ms without taps after rows moved: a thumb must not hit the next one
  var FAREWELL = 3500; // ms a settled row keeps its place
  var DIGIT = /^[1-9]$/; // the options of a question, by their places

  var list = document.getElementById("waiting");
  var pane = document.getElementById("pane");
  var menu = document.getElementById("menu");
  var help = document.getElementById("help");
  var state = document.getElementById("state");
  var wide = window.matchMedia("(min-width: 1000px)");
  var rows = {}; // by request id
  var selected = ""; // by the keyboard, or shown in the pane
  var shown = ""; // the request in the pane
  var skew = 0; // server clock minus ours
  var stillUntil = 0;
  var more = 0; // pending requests that are not shown

  function t(key, values) {
    return texts[key].replace(/\{(\w+)\}/g, (blank, name) => (values && name in values ? values[name] : blank));
  }

  function parse(html) {
    var box = document.createElement("template");
    box.innerHTML = html;
    return box.content.firstElementChild;
  }

  function note(text) {
    var box = document.createElement("div");
    box.className = "outcome late";
    box.textContent = text;
    return box;
  }

  // Rows.

  function adopt(node) {
    var id = node.dataset.id;
    var row = rows[id] || { id: id };
    row.node = node;
    rows[id] = row;
    node.addEventListener("focusin", () => select(id));
    node.addEventListener("click", function (event) {
      if (wide.matches && !event.target.closest("button")) {
        event.preventDefault();
        select(id);
      }
    });
    return row;
  }

  function swap(row, html) {
    var focused = row.node.contains(document.activeElement);
    var node = parse(html);
    row.node.replaceWith(node);
    adopt(node);
    mark(row.id);
    if (focused) {
      node.querySelector("a").focus();
    }
    if (shown === row.id) {
      load(row.id);
    }
  }

  function select(id) {
    var before = selected;
    selected = id;
    mark(before);
    mark(id);
    if (rows[id] && wide.matches && shown !== id) {
      load(id);
    }
  }

  function mark(id) {
    if (rows[id]) {
      rows[id].node.querySelector("a").setAttribute("aria-current", String(id === selected));
      rows[id].node.classList.toggle("selected", id === selected);
    }
  }

  // The request beside the list, as its page shows it.

  function load(id) {
    fetch(rows[id].node.querySelector("a").getAttribute("href"), { headers: { "X-Feishuperm": "1" } })
      .then((response) => response.text())
      .then(function (html) {
        var fresh = parse(html);
        if (selected !== id || !rows[id] || rows[id].leaving || !fresh || fresh.dataset.id !== id) {
          return;
        }
        if (shown === id) {
          renew(fresh);
        } else {
          shown = id;
          pane.replaceChildren(fresh);
          pane.hidden = false;
        }
        tick();
      })
      .catch(() => 0); // the server is away: the page says so
  }

  // Only what has changed is replaced: what was typed and where the focus is stays.
  function renew(fresh) {
    [".timing", ".why", ".hold"].forEach(function (part) {
      var old = pane.querySelector(part);
      if (!old.isEqualNode(fresh.querySelector(part))) {
        old.replaceWith(fresh.querySelector(part));
      }
    });
  }

  function fill() {
    if (wide.matches && !rows[shown]) {
      var first = list.querySelector(".row:not(.over)");
      pane.hidden = !first;
      if (first) {
        select(first.dataset.id);
      }
    }
  }

  // Deciding. Each button is in a form, as where no script runs; it is posted in place,
  // but for one that asks once more on a page of its own.

  document.addEventListener("submit", function (event) {
    var pressed = event.submitter;
    var place = pressed.closest("[data-id]");
    if (place && "asks" in pressed.dataset) {
      if (changedCommand(pressed)) {
        event.preventDefault();
      }
      return;
    }
    if (place) {
      event.preventDefault();
      press(rows[place.dataset.id], pressed, place);
    }
  });

  function post(pressed) {
    var fields = new URLSearchParams(new FormData(pressed.form));
    if (pressed.name) {
      fields.append(pressed.name, pressed.value);
    }
    return fetch(pressed.getAttribute("formaction") || pressed.form.getAttribute("action"), {
      method: "POST",
      body: fields,
      headers: { "X-Feishuperm": "1", Accept: "application/json" },
    }).then((response) => response.json());
  }

  function press(row, pressed, place) {
    if (!row || row.sent || row.leaving || Date.now() < stillUntil || changedCommand(pressed)) {
      return;
    }
    var label = [...pressed.childNodes];
    row.sent = true;
    var sending = post(pressed); // reads the fields: before they are frozen
    freeze(place, true);
    pressed.textContent = t("inbox.sending");
    function again(box) {
      row.sent = false;
      freeze(place, false);
      pressed.replaceChildren(...label);
      tell(place, box);
    }
    sending.then(
      (result) => (result.over ? settle(row, result.html) : again(result.html ? parse(result.html) : "")),
      () => again(note(t("inbox.failed")))
    );
  }

  function freeze(place, frozen) {
    place.querySelectorAll("button, input, textarea").forEach((field) => (field.disabled = frozen));
  }

  // Where the buttons are: that is where the person looks.
  function tell(place, box) {
    place.querySelectorAll(".outcome").forEach((old) => old.remove());
    (place.querySelector(".bar") || place).append(box);
  }

  // A settled row keeps its place for a moment, so that nothing moves under a finger that
  // is already on its way.
  function settle(row, html) {
    if (row.leaving) {
      return;
    }
    row.leaving = true;
    var height = row.node.getBoundingClientRect().height;
    row.node.style.minHeight = height + "px";
    row.node.classList.add("over");
    row.node.querySelector(".do").replaceChildren(parse(html));
    if (shown === row.id) {
      freeze(pane, true);
      pane.querySelectorAll(".bar button").forEach((button) => button.remove());
      tell(pane, parse(html));
    }
    rest();
    count();
    setTimeout(() => remove(row), FAREWELL);
  }

  function remove(row) {
    if (rows[row.id] !== row) {
      return;
    }
    var focused = row.node.contains(document.activeElement);
    row.node.remove();
    delete rows[row.id];
    if (shown === row.id) {
      focused = focused || pane.contains(document.activeElement);
      shown = "";
      pane.replaceChildren();
    }
    if (selected === row.id) {
      selected = "";
    }
    if (focused) {
      list.focus();
    }
    rest();
    count();
  }

  function rest() {
    stillUntil = Date.now() + STILL;
    list.classList.add("still");
    setTimeout(function () {
      if (Date.now() >= stillUntil) {
        list.classList.remove("still");
      }
    }, STILL + 20);
  }

  // A state from the server.

  function update(news) {
    skew = news.now * 1000 - Date.now();
    Object.keys(news.deadlines).forEach(function (id) {
      var html = news.fragments["row-" + id];
      if (rows[id] && rows[id].leaving && !rows[id].sent) {
        remove(rows[id]); // its hook found the restarted server: it waits again
      }
      if (html && !rows[id]) {
        arrive(html);
      } else if (html && !rows[id].leaving && rows[id].html !== html) {
        rows[id].html = html;
        swap(rows[id], html);
      }
      if (rows[id]) {
        rows[id].deadline = news.deadlines[id];
      }
    });
    Object.keys(rows).forEach(function (id) {
      if (!(id in news.deadlines) && !rows[id].leaving && !rows[id].sent) {
        settleElsewhere(rows[id], news.ended[id]);
      }
    });
    ["quiet", "recent-part", "passes"].forEach(function (name) {
      if (news.fragments[name]) {
        document.getElementById(name).replaceWith(parse(news.fragments[name]));
      }
    });
    more = Math.max(0, news.count - Object.keys(news.deadlines).length);
    count();
    tick();
  }

  function arrive(html) {
    var row = adopt(parse(html));
    row.html = html;
    list.appendChild(row.node); // last: what is there does not move
    var news = t("inbox.arrived", { what: row.node.dataset.news });
    announce(news);
    alarm(row.id, news);
  }

  function settleElsewhere(row, html) {
    var how = html ? " · " + parse(html).firstChild.textContent : "";
    settle(row, html || note(t("inbox.ended")).outerHTML);
    announce(t("inbox.settled", { what: row.node.dataset.news + how }));
  }

  function count() {
    var waiting = Object.values(rows).filter((row) => !row.leaving).length + more;
    document.title = (waiting ? "(" + waiting + ") " : "") + t("page.name");
    document.getElementById("count").textContent = waiting ? String(waiting) : "";
    list.hidden = !list.children.length;
    document.getElementById("empty").hidden = !list.hidden;
    fill();
  }

  function announce(text) {
    document.getElementById("news").textContent = text;
  }

  function tick() {
    var now = Date.now() + skew;
    Object.values(rows).forEach(function (row) {
      if (row.leaving || !row.deadline) {
        return;
      }
      var left = Math.ceil((row.deadline * 1000 - now) / 1000);
      var time = row.node.querySelector(".left");
      time.textContent = left > 0 ? counted(left) : "0:00";
      time.classList.toggle("soon", left <= SOON);
      if (left <= 0) {
        freeze(row.node, true);
      }
      var clock = shown === row.id && pane.querySelector(".clock");
      if (clock) {
        showLeft(clock, left);
        if (left <= 0) {
          freeze(pane, true);
        }
      }
    });
  }

  // Ringing and notices of the browser: off until somebody asks for them here.

  var sound = null;
  var ways = { ring: false, notify: false };

  function remembered(name, value) {
    try {
      if (value !== undefined) {
        localStorage.setItem("feishuperm-" + name, value ? "on" : "");
      }
      return localStorage.getItem("feishuperm-" + name) === "on";
    } catch (error) {
      return Boolean(value); // storage is switched off: for this page only
    }
  }

  function allowed(name) {
    return name === "ring" || Notification.permission === "granted";
  }

  function toggle(name, on) {
    ways[name] = on && allowed(name);
    remembered(name, ways[name]);
    document.getElementById(name).setAttribute("aria-pressed", String(ways[name]));
  }

  function wakeSound() {
    if (ways.ring && !sound) {
      sound = new AudioContext(); // only after a press: browsers want that
    }
    if (sound && sound.state === "suspended") {
      sound.resume();
    }
  }

  function offerAlarm(name, ask) {
    var element = document.getElementById(name);
    element.hidden = false;
    toggle(name, remembered(name));
    element.addEventListener("click", function () {
      ask(function () {
        toggle(name, !ways[name]);
        wakeSound();
        if (name === "ring") {
          beep();
        }
      });
    });
  }

  function beep() {
    if (!ways.ring || !sound) {
      return;
    }
    [0, 0.18].forEach(function (after) {
      var tone = sound.createOscillator();
      var volume = sound.createGain();
      tone.frequency.value = 880;
      volume.gain.value = 0.08;
      tone.connect(volume);
      volume.connect(sound.destination);
      tone.start(sound.currentTime + after);
      tone.stop(sound.currentTime + after + 0.12);
    });
  }

  // What it says is what stands in the list, and never a command: a screen may be locked.
  function alarm(id, news) {
    beep();
    if (!ways.notify || !document.hidden) {
      return;
    }
    try {
      var notice = new Notification(t("page.name"), { body: news, tag: id });
      notice.onclick = function () {
        window.focus();
        notice.close();
      };
    } catch (error) {
      toggle("notify", false); // a phone's browser offers it and cannot do it
    }
  }

  if (window.AudioContext) {
    offerAlarm("ring", (then) => then());
    document.addEventListener("pointerdown", wakeSound);
    document.addEventListener("keydown", wakeSound);
  }
  if (window.isSecureContext && window.Notification) {
    offerAlarm("notify", (then) => Notification.requestPermission().then(then));
  }

  // The connection.

  function connected(yes) {
    state.classList.toggle("lost", !yes);
    var text = t(yes ? "inbox.live" : "inbox.lost");
    if (state.textContent !== text) {
      state.textContent = text;
    }
  }

  // A phone that slept may hold a connection that is long dead.
  document.addEventListener("visibilitychange", function () {
    if (!document.hidden) {
      stream.open();
    }
  });
  window.addEventListener("pageshow", function (event) {
    if (event.persisted) {
      stream.open();
    }
  });

  // The keyboard.

  function move(step) {
    var ids = [...list.children].map((node) => node.dataset.id);
    if (!ids.length) {
      return;
    }
    var index = ids.indexOf(selected);
    var next = index < 0 ? (step > 0 ? 0 : ids.length - 1) : index + step;
    var id = ids[Math.max(0, Math.min(ids.length - 1, next))];
    select(id);
    rows[id].node.querySelector("a").focus();
  }

  function act(key) {
    var row = rows[selected];
    if (!row || !list.contains(document.activeElement) && !pane.contains(document.activeElement)) {
      move(row ? 0 : 1); // the first press only shows which request the next one is about
      return;
    }
    var place = shown === selected ? pane : row.node;
    if (DIGIT.test(key)) {
      click(place.querySelectorAll("button.option")[key - 1]);
    } else if (key === "r") {
      var field = place.querySelector("input[type=text][form=refuse]");
      if (field) {
        place.querySelector(".more").open = true;
        field.focus();
      }
    } else {
      click(place.querySelector(key === "Enter" ? "a" : keyed(key)));
    }
  }

  function click(element) {
    if (element) {
      element.click();
    }
  }

  function keyed(key) {
    return '[data-key="' + CSS.escape(key) + '"]';
  }

  function onKey(event) {
    if (event.ctrlKey || event.metaKey || event.altKey || event.repeat || event.isComposing) {
      return;
    }
    var tag = event.target.tagName;
    if (event.key === "Escape") {
      menu.open = false;
      if (tag === "INPUT" || tag === "TEXTAREA") {
        pane.focus();
      }
      return;
    }
    if (menu.open && event.key !== "?") {
      return;
    }
    if (tag === "INPUT" || tag === "TEXTAREA" || (event.key === "Enter" && (tag === "BUTTON" || tag === "A" || tag === "SUMMARY"))) {
      return;
    }
    var key = event.key.length === 1 ? event.key.toLowerCase() : event.key;
    if (key === "j" || key === "ArrowDown" || key === "k" || key === "ArrowUp") {
      move(key === "j" || key === "ArrowDown" ? 1 : -1);
    } else if (key === "?") {
      menu.open = help.open = !menu.open;
    } else if (key === "r" || key === "Enter" || DIGIT.test(key) || (!event.shiftKey && document.querySelector(".desk " + keyed(key)))) {
      act(key);
    } else {
      return;
    }
    event.preventDefault();
  }

  document.addEventListener("keydown", onKey);
  document.addEventListener("click", function (event) {
    if (!menu.contains(event.target)) {
      menu.open = false;
    }
  });
  wide.addEventListener("change", fill);

  if (location.search) {
    history.replaceState(null, "", location.pathname); // a spent ticket is no address
  }
  try {
    sessionStorage.setItem("inbox", location.href); // the way back from a request's page
  } catch (error) {
    // storage is switched off: then there is the browser's own way back
  }
  [...list.children].forEach(function (node) {
    adopt(node).html = node.outerHTML;
  });
  count();
  setInterval(tick, 500);
  var stream = follow("events", Infinity, update, connected);
})();
