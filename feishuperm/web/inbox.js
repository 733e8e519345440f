"use strict";
// The inbox: draws the state the server sends, and posts what the person decides.
// Text from a request only ever becomes textContent.
(function () {
  var boot = JSON.parse(document.getElementById("boot").textContent);
  var STILL = 600; // ms without taps after cards moved: a thumb must not hit the next one
  var FAREWELL = 3500; // ms a settled card keeps its place
  var SOON = 15; // seconds left that look urgent
  var FIRST = 14; // lines shown of a long text, and of its end
  var LAST = 5;
  var KEYS = { a: "allow", w: "always", d: "deny", i: "interrupt" };

  var list = document.getElementById("waiting");
  var empty = document.getElementById("empty");
  var help = document.getElementById("help");
  var state = document.getElementById("state");
  var cards = {}; // by request id
  var ended = {}; // outcomes of recent requests, by id
  var selected = "";
  var skew = 0; // server clock minus ours
  var stillUntil = 0;
  var first = true;
  var more = 0; // requests that wait and are not shown
  var source = null;
  var retry = 0;
  var helpReturn = null;

  function t(key, values) {
    return boot.texts[key].replace(/\{(\w+)\}/g, function (blank, name) {
      return values && name in values ? values[name] : blank;
    });
  }

  function make(tag, className, text) {
    var element = document.createElement(tag);
    if (className) {
      element.className = className;
    }
    if (text) {
      element.textContent = text;
    }
    for (var i = 3; i < arguments.length; i++) {
      if (arguments[i]) {
        element.appendChild(arguments[i]);
      }
    }
    return element;
  }

  // What the tool would do.

  function lineNodes(lines, looks, into) {
    lines.forEach(function (line) {
      if (!looks) {
        into.appendChild(document.createTextNode(line + "\n"));
        return;
      }
      into.appendChild(make("span", looks[line.charAt(0)] || "same", line + "\n"));
    });
  }

  function drawBlock(block, open, link) {
    var looks = boot.looks[block.kind];
    var lines = block.text.split("\n");
    var hidden = lines.length - FIRST - LAST;
    var content = make(block.prose ? "div" : "pre", (block.prose ? "prose " : "") + block.kind);
    var section = make("section", "block", "", block.label && make("h3", "", block.label), content);
    if (!block.tail && hidden > 3) {
      fold(section, content, lines, looks, hidden, open);
      return section;
    }
    lineNodes(lines, looks, content);
    if (block.tail) {
      content.appendChild(make("span", "gap", t("inbox.cut")));
      lineNodes(block.tail.split("\n"), looks, content);
      section.appendChild(fullLink(link));
    }
    return section;
  }

  function fold(section, content, lines, looks, hidden, open) {
    var toggle = make("button", "link");
    toggle.type = "button";
    toggle.dataset.role = "fold";
    function draw() {
      content.textContent = "";
      if (open) {
        lineNodes(lines, looks, content);
      } else {
        lineNodes(lines.slice(0, FIRST), looks, content);
        content.appendChild(make("span", "gap", t("inbox.hidden", { lines: hidden })));
        lineNodes(lines.slice(-LAST), looks, content);
      }
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

  function fullLink(link) {
    var anchor = make("a", "button link", t("button.more"));
    anchor.href = link;
    return anchor;
  }

  // One waiting request.

  function drawCard(item) {
    var card = make("article", "sheet item stack");
    card.id = "request-" + item.id;
    card.tabIndex = -1;
    card.setAttribute("aria-label", item.title + ": " + item.tool + ", " + item.project_name);
    var where = [item.project_name, item.branch, item.agent].filter(Boolean).join(" · ");
    var clock = make("span", "clock");
    clock.setAttribute("role", "timer");
    var bar = make("div", "bar", "", make("i"));
    var head = make("div", "", "", make("span", "tool", item.tool), make("p", "where", where));
    card.appendChild(make("header", "head", "", head, clock));
    card.appendChild(bar);
    var body = make("div", "body stack");
    item.blocks.forEach(function (block) {
      body.appendChild(drawBlock(block, false, item.links.request));
    });
    var actions = drawActions(item);
    body.appendChild(actions);
    card.appendChild(body);
    card.addEventListener("focusin", function () {
      select(item.id);
    });
    return { item: item, node: card, actions: actions, clock: clock, bar: bar, sent: false, over: false };
  }

  function drawActions(item) {
    var box = make("div", "actions");
    if (item.links.answer) {
      var answer = make("a", "button answer", t("button.answer"));
      answer.href = item.links.answer;
      answer.dataset.role = "open";
      box.appendChild(answer);
    } else if (item.links.allow) {
      box.appendChild(button(item, "allow"));
    }
    if (item.links.deny || item.links.interrupt) {
      box.appendChild(drawRefusals(item));
    }
    if (item.links.always && item.kind === "permission") {
      var rules = item.rules.map(function (rule) {
        return make("code", "rule", rule);
      });
      var hint = make("p", "muted", item.rule);
      box.appendChild(make.apply(null, ["div", "forever", "", hint].concat(rules, [button(item, "always")])));
    }
    return box;
  }

  function drawRefusals(item) {
    var box = make("div", "refuse");
    var pair = make("div", "pair");
    if (item.links.deny) {
      var reason = make("input");
      reason.type = "text";
      reason.name = "reason";
      reason.maxLength = 1000;
      reason.autocomplete = "off";
      reason.placeholder = t("page.reason_hint");
      reason.addEventListener("keydown", function (event) {
        // Enter that ends an input method's composition is not an answer.
        if (event.key === "Enter" && !event.isComposing && event.keyCode !== 229) {
          event.preventDefault();
          decide(item.id, "deny");
        } else if (event.key === "Escape") {
          cards[item.id].node.focus();
        }
      });
      box.appendChild(make("label", "field", t("page.reason"), reason));
      pair.appendChild(button(item, "deny"));
    }
    if (item.links.interrupt) {
      pair.appendChild(button(item, "interrupt"));
    }
    box.appendChild(pair);
    return box;
  }

  function button(item, name) {
    var element = make("button", name, item.labels[name]);
    element.type = "button";
    element.dataset.action = name;
    element.addEventListener("click", function () {
      decide(item.id, name);
    });
    return element;
  }

  // Deciding.

  function decide(id, name) {
    var card = cards[id];
    if (!card || card.sent || card.over || !card.item.links[name] || Date.now() < stillUntil) {
      return;
    }
    var pressed = card.node.querySelector("[data-action=" + name + "]");
    card.sent = true;
    freeze(card, true);
    pressed.textContent = t("inbox.sending");
    post(card, name).then(
      function (result) {
        settle(card, result.look, result.title, result.lines);
      },
      function () {
        card.sent = false;
        freeze(card, card.over);
        pressed.textContent = card.item.labels[name];
        tell(card, "late", t("inbox.failed"), []);
      }
    );
  }

  function post(card, name) {
    var link = card.item.links[name].split("?");
    var form = new URLSearchParams(link[1] || "");
    var reason = card.node.querySelector("input[name=reason]");
    if (name === "deny" && reason && reason.value.trim()) {
      form.set("reason", reason.value.trim());
    }
    return fetch(link[0], {
      method: "POST",
      body: form,
      headers: { "X-Feishuperm": "1", Accept: "application/json" },
    }).then(function (response) {
      return response.json();
    });
  }

  function freeze(card, frozen) {
    card.node.querySelectorAll("button[data-action], input").forEach(function (element) {
      element.disabled = frozen;
    });
  }

  // Where the buttons are: that is where the person looks.
  function tell(card, look, title, lines) {
    var old = card.node.querySelector(".outcome");
    if (old) {
      old.remove();
    }
    var box = make("div", "outcome " + look, title);
    box.setAttribute("role", "status");
    lines.forEach(function (line) {
      box.appendChild(make("p", "", line));
    });
    card.actions.insertBefore(box, card.actions.firstChild);
    return box;
  }

  // A settled card keeps its place and height for a moment, so that nothing moves under
  // a finger that is already on its way.
  function settle(card, look, title, lines) {
    if (card.leaving) {
      return;
    }
    card.leaving = true;
    card.over = true;
    freeze(card, true);
    card.actions.style.minHeight = card.actions.getBoundingClientRect().height + "px";
    card.actions.classList.add("over");
    tell(card, look, title, lines).scrollIntoView({ block: "nearest" });
    hold();
    count();
    setTimeout(function () {
      remove(card);
    }, FAREWELL);
  }

  function remove(card) {
    if (cards[card.item.id] !== card) {
      return;
    }
    var focused = card.node.contains(document.activeElement);
    card.node.remove();
    delete cards[card.item.id];
    if (selected === card.item.id) {
      selected = "";
    }
    if (focused) {
      list.focus();
    }
    hold();
    count();
  }

  function hold() {
    stillUntil = Date.now() + STILL;
    list.classList.add("still");
    setTimeout(function () {
      if (Date.now() >= stillUntil) {
        list.classList.remove("still");
      }
    }, STILL + 20);
  }

  // Drawing a state.

  function draw(news) {
    skew = news.now * 1000 - Date.now();
    var present = {};
    ended = {};
    news.recent.forEach(function (item) {
      ended[item.id] = item;
    });
    news.waiting.forEach(function (item) {
      var card = cards[item.id];
      present[item.id] = true;
      if (card && card.leaving && !card.sent) {
        remove(card); // its hook found the restarted server: it waits again
      }
      if (cards[item.id]) {
        cards[item.id].item.deadline = item.deadline;
      } else {
        arrive(item);
      }
    });
    Object.keys(cards).forEach(function (id) {
      if (!present[id] && !cards[id].leaving && !cards[id].sent) {
        settleElsewhere(cards[id]);
      }
    });
    drawRecent(news.recent);
    more = Math.max(0, (news.waiting_count || 0) - news.waiting.length);
    count();
    first = false;
    tick();
  }

  function arrive(item) {
    cards[item.id] = drawCard(item);
    list.appendChild(cards[item.id].node); // last: what is there does not move
    if (!first) {
      announce(t("inbox.arrived", { what: item.tool + " · " + item.project_name }));
    }
  }

  function settleElsewhere(card) {
    var how = ended[card.item.id];
    var lines = how && how.surface ? [how.surface] : [];
    settle(card, how ? how.look : "late", how ? how.done : t("inbox.ended"), lines);
    announce(t("inbox.settled", { what: card.item.tool + (how ? " · " + how.done : "") }));
  }

  function drawRecent(items) {
    var box = document.getElementById("recent");
    document.getElementById("recent-part").hidden = !items.length;
    box.textContent = "";
    items.forEach(function (item) {
      var row = make("div", "row", "", make("span", "", item.what), make("span", "done-" + item.look, item.done));
      var facts = [item.project_name, time(item.ended), item.surface].filter(Boolean).join(" · ");
      var entry = make("li", "", "", row, make("p", "muted", facts));
      item.rules.forEach(function (rule) {
        entry.appendChild(make("code", "rule", rule));
      });
      var reason = item.reason ? [t("page.key.reason") + ": " + item.reason] : [];
      item.notes.concat(reason).forEach(function (line) {
        entry.appendChild(make("p", "muted", line));
      });
      box.appendChild(entry);
    });
  }

  function time(seconds) {
    var date = new Date(seconds * 1000);
    return [date.getHours(), date.getMinutes(), date.getSeconds()]
      .map(function (part) {
        return ("0" + part).slice(-2);
      })
      .join(":");
  }

  function count() {
    var waiting = Object.keys(cards).filter(function (id) {
      return !cards[id].leaving;
    }).length + more;
    document.title = (waiting ? "(" + waiting + ") " : "") + t("page.name");
    document.getElementById("count").textContent = waiting ? String(waiting) : "";
    empty.hidden = list.children.length > 0;
  }

  function announce(text) {
    document.getElementById("news").textContent = text;
  }

  function tick() {
    var now = Date.now() + skew;
    Object.keys(cards).forEach(function (id) {
      var card = cards[id];
      if (card.leaving) {
        return;
      }
      var left = Math.ceil((card.item.deadline * 1000 - now) / 1000);
      var all = card.item.deadline - card.item.created;
      var shown = Math.floor(left / 60) + ":" + ("0" + (left % 60)).slice(-2);
      card.clock.textContent = left > 0 ? t("page.left", { left: shown }) : t("page.time_over");
      card.clock.classList.toggle("soon", left <= SOON);
      card.bar.classList.toggle("soon", left <= SOON);
      card.bar.firstChild.style.transform = "scaleX(" + Math.max(0, Math.min(1, left / all)) + ")";
      if (left <= 0 && !card.over) {
        card.over = true;
        freeze(card, true);
      }
    });
  }

  // The connection.

  function connect() {
    if (source) {
      source.close();
    }
    source = new EventSource(boot.events);
    source.addEventListener("state", function (event) {
      retry = 0;
      connected(true);
      draw(JSON.parse(event.data));
    });
    source.onopen = function () {
      connected(true);
    };
    source.onerror = function () {
      connected(false);
      // A browser gives up after an HTTP error; a restarting server deserves patience.
      if (source.readyState === EventSource.CLOSED) {
        retry = Math.min(retry + 1, 10);
        setTimeout(connect, retry * 1000);
      }
    };
  }

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
      connect();
    }
  });
  window.addEventListener("pagehide", function () {
    source.close();
  });
  window.addEventListener("pageshow", function (event) {
    if (event.persisted) {
      connect();
    }
  });

  // The keyboard.

  function select(id) {
    if (selected === id) {
      return;
    }
    if (cards[selected]) {
      cards[selected].node.classList.remove("selected");
    }
    selected = id;
    if (cards[id]) {
      cards[id].node.classList.add("selected");
    }
  }

  function move(step) {
    var ids = [].map.call(list.children, function (node) {
      return node.id.slice("request-".length);
    });
    if (!ids.length) {
      return;
    }
    var index = ids.indexOf(selected);
    var next = index < 0 ? (step > 0 ? 0 : ids.length - 1) : index + step;
    var id = ids[Math.max(0, Math.min(ids.length - 1, next))];
    select(id);
    cards[id].node.focus();
    cards[id].node.scrollIntoView({ block: "nearest" });
  }

  function act(key) {
    if (!cards[selected]) {
      move(1); // the first press only shows which request the next one is about
    } else if (key === "r") {
      var reason = cards[selected].node.querySelector("input[name=reason]");
      if (reason) {
        reason.focus();
      }
    } else if (key === "Enter") {
      var opener = cards[selected].node.querySelector("[data-role]");
      if (opener) {
        opener.click();
      }
    } else {
      decide(selected, KEYS[key]);
    }
  }

  function toggleHelp(open) {
    if (open) {
      helpReturn = document.activeElement;
    }
    help.hidden = !open;
    if (open) {
      document.getElementById("help-close").focus();
    } else if (helpReturn) {
      helpReturn.focus();
    }
  }

  function onKey(event) {
    if (event.ctrlKey || event.metaKey || event.altKey || event.repeat || event.isComposing) {
      return;
    }
    if (!help.hidden) {
      if (event.key === "Escape" || event.key === "?") {
        toggleHelp(false);
      }
      return;
    }
    var tag = event.target.tagName;
    if (tag === "INPUT" || (event.key === "Enter" && (tag === "BUTTON" || tag === "A"))) {
      return;
    }
    var key = event.key.length === 1 ? event.key.toLowerCase() : event.key;
    if (key === "j" || key === "ArrowDown" || key === "k" || key === "ArrowUp") {
      move(key === "j" || key === "ArrowDown" ? 1 : -1);
    } else if (key === "?") {
      toggleHelp(true);
    } else if (key === "r" || key === "Enter" || (key in KEYS && !event.shiftKey)) {
      act(key);
    } else {
      return;
    }
    event.preventDefault();
  }

  document.addEventListener("keydown", onKey);
  document.getElementById("help-open").addEventListener("click", function () {
    toggleHelp(true);
  });
  document.getElementById("help-close").addEventListener("click", function () {
    toggleHelp(false);
  });

  try {
    sessionStorage.setItem("inbox", location.href); // the way back from a request's page
  } catch (error) {
    // storage is switched off: then there is the browser's own way back
  }
  draw(boot);
  setInterval(tick, 500);
  connect();
})();
