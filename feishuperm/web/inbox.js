// The inbox: swaps in what the server has drawn, counts down, and posts what a person
// decides. Requests come as HTML in which the server has escaped every text; what may be
// pressed, typed or chosen stands in it, and no button is known here.
(function () {
  var texts = JSON.parse(document.getElementById("texts").textContent);
  var STILL = 600; // ms without taps after cards moved: a thumb must not hit the next one
  var FAREWELL = 3500; // ms a settled card keeps its place
  var SOON = 15; // seconds left that look urgent
  var FIRST = 14; // lines shown of a long text, and of its end
  var LAST = 5;
  var FOLDED = 3; // lines that are not worth a fold
  var DIGIT = /^[1-9]$/; // the options of a question, by their places

  var desk = document.getElementById("desk");
  var list = document.getElementById("waiting");
  var rail = document.getElementById("rail");
  var empty = document.getElementById("empty");
  var help = document.getElementById("help");
  var state = document.getElementById("state");
  var wide = window.matchMedia("(min-width: 1000px)");
  var cards = {}; // by request id
  var selected = "";
  var shown = ""; // the one request that a wide screen shows whole
  var skew = 0; // server clock minus ours
  var stillUntil = 0;
  var more = 0; // pending requests that are not shown

  function t(key, values) {
    return texts[key].replace(/\{(\w+)\}/g, (blank, name) => (values && name in values ? values[name] : blank));
  }

  function make(tag, className, text) {
    var element = document.createElement(tag);
    element.className = className;
    element.textContent = text;
    return element;
  }

  function parse(html) {
    var box = document.createElement("template");
    box.innerHTML = html;
    return box.content.firstElementChild;
  }

  function idOf(node) {
    return node.id.slice("request-".length);
  }

  // One pending request.

  function adopt(node, row, html) {
    var card = { id: idOf(node), node: node, row: row, html: html };
    cards[card.id] = card;
    node.querySelectorAll(".block").forEach(fold);
    node.addEventListener("focusin", () => select(card.id));
    row.addEventListener("click", function (event) {
      event.preventDefault();
      select(card.id); // what is not shown cannot be focused
      node.focus();
    });
    return card;
  }

  // A long text shows both ends, its middle is one press away.
  function fold(section) {
    var content = section.lastElementChild;
    if (content.querySelector(".gap")) {
      return; // the server has cut it
    }
    var plan = content.matches(".markdown");
    if (!content.children.length) {
      content.replaceChildren(...content.textContent.split("\n").map((line) => make("span", "", line + "\n")));
    }
    var lines = [...(plan ? content.querySelectorAll(".md, li > span, pre, table, hr") : content.children)];
    var hidden = lines.length - FIRST - LAST;
    if (hidden <= FOLDED) {
      return;
    }
    var open = wide.matches;
    var gap = make("span", "gap", t("inbox.hidden", { lines: hidden }));
    var toggle = make("button", "link fold", "");
    toggle.type = "button";
    (lines[FIRST].closest("li") || lines[FIRST]).before(gap);
    function draw() {
      lines.slice(FIRST, -LAST).forEach((line) => (line.hidden = !open));
      content.querySelectorAll("li").forEach((item) => (item.hidden = !item.querySelector("span:not([hidden])")));
      gap.hidden = open;
      toggle.textContent = open ? t("inbox.collapse") : t("inbox.expand", { lines: lines.length });
      toggle.setAttribute("aria-expanded", String(open));
    }
    toggle.addEventListener("click", function () {
      open = !open;
      draw();
    });
    draw();
    section.appendChild(toggle);
  }

  // Only what has changed is replaced: what was typed and where the focus is stays.
  function refresh(card, html) {
    var before = parse(card.html);
    var after = parse(html);
    card.html = html;
    [".timing", ".about"].forEach(function (part) {
      var fresh = after.querySelector(part);
      if (!fresh.isEqualNode(before.querySelector(part))) {
        card.node.querySelector(part).replaceWith(fresh);
      }
    });
  }

  function show(id) {
    [shown, id].forEach(function (each) {
      if (cards[each]) {
        cards[each].node.classList.toggle("shown", each === id);
        cards[each].row.setAttribute("aria-current", String(each === id));
      }
    });
    shown = id;
  }

  // Deciding. Each button is a form, as where no script runs; it is posted in place.

  document.addEventListener("submit", function (event) {
    var pressed = event.submitter;
    var item = pressed.closest(".item");
    if (item) {
      event.preventDefault();
      if (pressed.closest("form.hold")) {
        inPlace(pressed);
      } else {
        press(cards[idOf(item)], pressed);
      }
    } else if (pressed.closest("form.undo")) {
      event.preventDefault();
      inPlace(pressed);
    }
  });

  function post(pressed) {
    var fields = new URLSearchParams(new FormData(pressed.form));
    if (pressed.name) {
      fields.append(pressed.name, pressed.value);
    }
    return fetch(pressed.form.getAttribute("action"), {
      method: "POST",
      body: fields,
      headers: { "X-Feishuperm": "1", Accept: "application/json" },
    }).then((response) => response.json());
  }

  // What decides nothing: its button goes, and what the server says stands there.
  function inPlace(pressed) {
    var sending = post(pressed);
    pressed.hidden = true;
    sending.then(
      (result) => result.html && pressed.replaceWith(parse(result.html)),
      function () {
        pressed.hidden = false;
        announce(t("inbox.failed"));
      }
    );
  }

  function press(card, pressed) {
    if (!card || card.sent || card.over || Date.now() < stillUntil) {
      return;
    }
    var label = [...pressed.childNodes];
    card.sent = true;
    var sending = post(pressed); // reads the fields: before they are frozen
    freeze(card, true);
    pressed.textContent = t("inbox.sending");
    function again(box) {
      card.sent = false;
      freeze(card, card.over);
      pressed.replaceChildren(...label);
      tell(card, box);
    }
    sending.then(
      (result) => (result.over ? settle(card, parse(result.html)) : again(parse(result.html))),
      () => again(make("div", "outcome late", t("inbox.failed")))
    );
  }

  function freeze(card, frozen) {
    var fields = card.node.querySelectorAll(".actions button, .actions input, .actions textarea");
    fields.forEach((field) => (field.disabled = frozen));
  }

  // Where the buttons are: that is where the person looks.
  function tell(card, box) {
    var actions = card.node.querySelector(".actions");
    actions.querySelectorAll(".outcome").forEach((old) => old.remove());
    actions.prepend(box);
  }

  // A settled card keeps its place and height for a moment, so that nothing moves under
  // a finger that is already on its way.
  function settle(card, box) {
    if (card.leaving) {
      return;
    }
    card.leaving = true;
    card.over = true;
    freeze(card, true);
    var actions = card.node.querySelector(".actions");
    actions.style.minHeight = actions.getBoundingClientRect().height + "px";
    actions.classList.add("over");
    tell(card, box);
    box.scrollIntoView({ block: "nearest" });
    rest();
    count();
    setTimeout(() => remove(card), FAREWELL);
  }

  function remove(card) {
    if (cards[card.id] !== card) {
      return;
    }
    var focused = card.node.contains(document.activeElement);
    card.node.remove();
    card.row.remove();
    delete cards[card.id];
    if (selected === card.id) {
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
      var html = news.fragments["request-" + id];
      if (cards[id] && cards[id].leaving && !cards[id].sent) {
        remove(cards[id]); // its hook found the restarted server: it waits again
      }
      if (cards[id] && html) {
        refresh(cards[id], html);
      } else if (html) {
        arrive(html, news.fragments["row-" + id]);
      }
      if (cards[id]) {
        cards[id].deadline = news.deadlines[id];
      }
    });
    Object.keys(cards).forEach(function (id) {
      if (!(id in news.deadlines) && !cards[id].leaving && !cards[id].sent) {
        settleElsewhere(cards[id], news.ended[id]);
      }
    });
    ["recent-part", "passes"].forEach(function (name) {
      if (news.fragments[name]) {
        document.getElementById(name).replaceWith(parse(news.fragments[name]));
      }
    });
    more = Math.max(0, news.count - Object.keys(news.deadlines).length);
    count();
    tick();
  }

  function arrive(html, row) {
    var card = adopt(parse(html), parse(row), html);
    list.appendChild(card.node); // last: what is there does not move
    rail.appendChild(card.row);
    var news = t("inbox.arrived", { what: card.node.dataset.news });
    announce(news);
    alarm(card.id, news);
  }

  function settleElsewhere(card, html) {
    var box = html ? parse(html) : make("div", "outcome late", t("inbox.ended"));
    var how = html ? " · " + box.firstChild.textContent : "";
    settle(card, box);
    announce(t("inbox.settled", { what: card.node.querySelector(".tool").textContent + how }));
  }

  function count() {
    var waiting = Object.values(cards).filter((card) => !card.leaving).length + more;
    document.title = (waiting ? "(" + waiting + ") " : "") + t("page.name");
    document.getElementById("count").textContent = waiting ? String(waiting) : "";
    empty.hidden = list.children.length > 0;
    desk.hidden = !empty.hidden;
    if (!cards[shown] && list.firstElementChild) {
      show(idOf(list.firstElementChild));
    }
  }

  function announce(text) {
    document.getElementById("news").textContent = text;
  }

  function tick() {
    var now = Date.now() + skew;
    Object.values(cards).forEach(function (card) {
      if (card.leaving || !card.deadline) {
        return;
      }
      var left = Math.ceil((card.deadline * 1000 - now) / 1000);
      var clock = card.node.querySelector(".clock");
      var bar = card.node.querySelector(".bar");
      clock.textContent = left > 0 ? clock.dataset.text.replace("{left}", counted(left)) : clock.dataset.over;
      clock.classList.toggle("soon", left <= SOON);
      card.row.querySelector(".left").textContent = left > 0 ? counted(left) : "";
      bar.classList.toggle("soon", left <= SOON);
      bar.firstChild.style.transform = "scaleX(" + Math.max(0, Math.min(1, left / clock.dataset.seconds)) + ")";
      if (left <= 0 && !card.over) {
        card.over = true;
        freeze(card, true);
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
    document.getElementById("alerts").hidden = false;
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

  function select(id) {
    if (selected === id) {
      return;
    }
    [selected, id].filter((each) => cards[each]).forEach(function (each) {
      cards[each].node.classList.toggle("selected", each === id);
    });
    selected = id;
    if (cards[id]) {
      show(id);
    }
  }

  function move(step) {
    var ids = [].map.call(list.children, idOf);
    if (!ids.length) {
      return;
    }
    var index = ids.indexOf(selected);
    var next = index < 0 ? (step > 0 ? 0 : ids.length - 1) : index + step;
    var id = ids[Math.max(0, Math.min(ids.length - 1, next))];
    select(id);
    cards[id].node.focus();
    cards[id].node.scrollIntoView({ block: "nearest" });
    cards[id].row.scrollIntoView({ block: "nearest" });
  }

  function act(key) {
    if (!cards[selected]) {
      move(1); // the first press only shows which request the next one is about
    } else if (DIGIT.test(key)) {
      click(cards[selected].node.querySelectorAll("button.option")[key - 1]);
    } else if (key === "r") {
      var field = cards[selected].node.querySelector("input[type=text]");
      if (field) {
        field.focus();
      }
    } else {
      click(cards[selected].node.querySelector(key === "Enter" ? ".fold, a.button:not(.more)" : keyed(key)));
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
    if (help.open) {
      if (event.key === "?") {
        help.close();
      }
      return;
    }
    var tag = event.target.tagName;
    if (tag === "INPUT" && event.key === "Escape" && event.target.closest(".item")) {
      event.target.closest(".item").focus();
    }
    if (tag === "INPUT" || tag === "TEXTAREA" || (event.key === "Enter" && (tag === "BUTTON" || tag === "A" || tag === "SUMMARY"))) {
      return;
    }
    var key = event.key.length === 1 ? event.key.toLowerCase() : event.key;
    if (key === "j" || key === "ArrowDown" || key === "k" || key === "ArrowUp") {
      move(key === "j" || key === "ArrowDown" ? 1 : -1);
    } else if (key === "?") {
      help.showModal();
    } else if (key === "r" || key === "Enter" || DIGIT.test(key) || (!event.shiftKey && list.querySelector(keyed(key)))) {
      act(key);
    } else {
      return;
    }
    event.preventDefault();
  }

  document.addEventListener("keydown", onKey);
  document.getElementById("help-open").addEventListener("click", () => help.showModal());
  document.getElementById("help-close").addEventListener("click", () => help.close());

  if (location.search) {
    history.replaceState(null, "", location.pathname); // a spent ticket is no address
  }
  try {
    sessionStorage.setItem("inbox", location.href); // the way back from a request's page
  } catch (error) {
    // storage is switched off: then there is the browser's own way back
  }
  desk.classList.add("live");
  [...list.children].forEach((node, place) => adopt(node, rail.children[place], node.outerHTML));
  count();
  setInterval(tick, 500);
  var stream = follow("events", Infinity, update, connected);
})();
