"use strict";
// The inbox: draws the state the server sends, and posts what the person decides.
// What may be pressed, typed or chosen is data of each request; no button is known here.
// Text from a request only ever becomes textContent.
(function () {
  var boot = JSON.parse(document.getElementById("boot").textContent);
  var STILL = 600; // ms without taps after cards moved: a thumb must not hit the next one
  var FAREWELL = 3500; // ms a settled card keeps its place
  var SOON = 15; // seconds left that look urgent
  var FIRST = 14; // lines shown of a long text, and of its end
  var LAST = 5;
  var LINE = 120; // characters of a request on the left of a wide screen
  var DIGIT = /^[1-9]$/; // the options of a question, by their places
  var FIRM = ["no", "stop"]; // looks of the buttons that stand apart

  document.getElementById("plain").remove(); // it is for where no script runs
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
  var shown = ""; // the one request that a wide screen shows whole
  var rail = document.getElementById("rail");
  var wide = window.matchMedia("(min-width: 1000px)");

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

  function drawBlock(block) {
    if (!block.kind) {
      return make("p", "note", block.gap); // in the place of what was left out
    }
    var content = make(block.prose ? "div" : "pre", (block.prose ? "prose " : "") + block.kind);
    var section = make("section", "block", "", block.label && make("h3", "", block.label), content);
    var lines = block.pieces || block.text.split("\n");
    var hidden = lines.length - FIRST - LAST;
    function put(some, into) {
      if (block.pieces) {
        drawPieces(some, into);
      } else {
        lineNodes(some, boot.looks[block.kind], into);
      }
    }
    if (!block.gap && hidden > 3) {
      fold(section, content, lines, put, hidden);
      return section;
    }
    put(lines, content);
    if (block.gap) {
      content.appendChild(make("span", "gap", block.gap));
      put(block.pieces ? block.tail_pieces : block.tail.split("\n"), content);
    }
    return section;
  }

  // The paragraphs of a plan, its items in lists.
  function drawPieces(pieces, into) {
    var lists = []; // those that are open
    pieces.forEach(function (piece) {
      var depth = piece.kind === "item" ? piece.depth : -1;
      var last = lists[lists.length - 1];
      while (last && last.depth >= depth && !(last.depth === depth && last.tag === piece.tag)) {
        lists.pop();
        last = lists[lists.length - 1];
      }
      if (depth < 0) {
        into.appendChild(drawPiece(piece));
        return;
      }
      if (!last || last.depth < depth) {
        var list = make(piece.tag);
        (last ? last.item : into).appendChild(list);
        last = { depth: depth, tag: piece.tag, list: list };
        lists.push(last);
      }
      last.item = drawItem(piece);
      last.list.appendChild(last.item);
    });
  }

  function drawItem(piece) {
    var item = make("li", piece.mark ? "box" : "", "", drawSpans(piece.spans, make("span", "", piece.mark)));
    if (piece.number !== null) {
      item.value = piece.number;
    }
    return item;
  }

  // A paragraph of a plan: its kind is the server's, its texts are only ever texts.
  function drawPiece(piece) {
    if (piece.kind === "table") {
      var table = make("table");
      piece.rows.forEach(function (cells) {
        var row = make("tr");
        cells.forEach(function (cell) {
          row.appendChild(drawSpans(cell, make("td")));
        });
        table.appendChild(row);
      });
      return table;
    }
    if (piece.kind === "rule") {
      return make("hr");
    }
    if (piece.kind === "code") {
      return drawSpans(piece.spans, make("pre", "", "", piece.mark && make("b", "", piece.mark)));
    }
    return drawSpans(piece.spans, make(piece.tag, piece.look));
  }

  function drawSpans(spans, into) {
    spans.forEach(function (span) {
      var tag = boot.spans[span[0]];
      into.appendChild(tag ? make(tag, "", span[1]) : document.createTextNode(span[1]));
    });
    return into;
  }

  function fold(section, content, lines, put, hidden) {
    var open = wide.matches;
    var toggle = make("button", "link");
    toggle.type = "button";
    toggle.dataset.role = "fold";
    function draw() {
      content.textContent = "";
      if (open) {
        put(lines, content);
      } else {
        put(lines.slice(0, FIRST), content);
        content.appendChild(make("span", "gap", t("inbox.hidden", { lines: hidden })));
        put(lines.slice(-LAST), content);
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

  function link(className, label, address) {
    var anchor = make("a", "button " + className, label);
    anchor.href = address;
    anchor.dataset.role = "open";
    return anchor;
  }

  // One waiting request.

  function drawCard(item) {
    var card = make("article", "sheet item stack");
    card.id = "request-" + item.id;
    card.tabIndex = -1;
    card.setAttribute("aria-label", item.title + ": " + item.tool + ", " + item.project_name);
    var where = item.where.join(" · ");
    var clock = make("span", "clock");
    clock.setAttribute("role", "timer");
    var bar = make("div", "bar", "", make("i"));
    var head = make("div", "", "", make("span", "tool", item.tool), make("p", "where", where));
    var holder = drawHolder(item);
    var zero = make("span", "zero", item.zero);
    card.appendChild(make("header", "head", "", head, make("div", "timing", "", clock, zero, holder)));
    card.appendChild(bar);
    var body = make("div", "body stack");
    var about = make("div", "about stack");
    drawAbout(item, about);
    item.blocks.forEach(function (block, place) {
      body.appendChild(drawBlock(block));
      if (!place) {
        body.appendChild(about);
      }
    });
    if (!item.blocks.length) {
      body.appendChild(about);
    }
    if (item.note) {
      body.appendChild(make("p", "note", item.note));
    }
    if (item.partial) {
      body.appendChild(link("link", t("button.more"), item.links.request));
    }
    var actions = drawActions(item);
    body.appendChild(actions);
    card.appendChild(body);
    card.addEventListener("focusin", function () {
      select(item.id);
    });
    return {
      item: item,
      node: card,
      row: drawRow(item),
      about: about,
      actions: actions,
      clock: clock,
      zero: zero,
      holder: holder,
      bar: bar,
      sent: false,
      over: false,
    };
  }

  // Its line on the left of a wide screen.
  function drawRow(item) {
    var block = item.blocks[0] || {};
    var piece = (block.pieces || [])[0];
    var asked = item.offers.filter(function (offer) {
      return offer.choice;
    })[0];
    var what = block.text || (asked ? asked.choice.label : "");
    if (piece) {
      what = piece.spans.map(function (span) {
        return span[1];
      }).join("");
    }
    var line = what.split("\n")[0].slice(0, LINE);
    var head = make("span", "row", "", make("b", "", item.tool), make("span", "left"));
    var row = make("button", "plain", "", head, line && make("code", "", line), make("span", "muted", item.where.join(" · ")));
    row.type = "button";
    row.classList.toggle("risky", item.dangers.length > 0);
    row.addEventListener("click", function () {
      select(item.id); // what is not shown cannot be focused
      cards[item.id].node.focus();
    });
    return row;
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

  // What is dangerous, why it is asked, what else it does. The words may come later.
  function drawAbout(item, into) {
    into.textContent = "";
    item.dangers.forEach(function (line) {
      into.appendChild(make("p", "danger", line));
    });
    [["why", t("page.why")], ["prompt", t("page.prompt")]].forEach(function (row) {
      if (item[row[0]]) {
        var words = make("p", row[0], "", make("span", "", row[1]));
        words.appendChild(document.createTextNode(" " + item[row[0]]));
        into.appendChild(words);
      }
    });
    if (item.facts.length) {
      var facts = make("ul", "plain-facts");
      item.facts.forEach(function (line) {
        facts.appendChild(make("li", "", line));
      });
      into.appendChild(facts);
    }
    into.hidden = !into.children.length;
  }

  // "I am reading": stops the clock, where it may be stopped.
  function drawHolder(item) {
    var element = make("button", "link hold", t("button.hold"));
    element.type = "button";
    element.hidden = !item.hold;
    element.addEventListener("click", function () {
      element.hidden = true;
      post(cards[item.id], { name: "hold", link: item.links.hold }).catch(function () {
        element.hidden = false;
      });
    });
    return element;
  }

  function drawActions(item) {
    function drawn(looks) {
      return item.offers.filter(function (offer) {
        return looks.indexOf(offer.look) >= 0;
      });
    }
    var box = make("div", "actions");
    drawn(["yes"]).forEach(function (offer) {
      var into = offer.edits ? make("details", "", "", make("summary", "", offer.label)) : box;
      drawOptions(item, offer, into);
      drawFields(item, offer, into);
      into.appendChild(button(item, offer));
      if (into !== box) {
        box.appendChild(into);
      }
    });
    if (drawn(FIRM).length) {
      box.appendChild(drawRefusals(item, drawn(FIRM)));
    }
    if (drawn(["while"]).length) {
      var pair = make("div", "while pair");
      drawn(["while"]).forEach(function (offer) {
        pair.appendChild(button(item, offer));
      });
      box.appendChild(pair);
    }
    if (drawn(["forever"]).length) {
      var rules = make("div", "lasting", "", make("p", "muted", item.rule));
      item.rules.forEach(function (rule) {
        rules.appendChild(make("code", "rule", rule));
      });
      drawn(["forever"]).forEach(function (offer) {
        drawFields(item, offer, rules);
        rules.appendChild(button(item, offer));
      });
      box.appendChild(rules);
    }
    return box;
  }

  // A single choice: one press is the answer.
  function drawOptions(item, offer, into) {
    var field = offer.choice;
    if (!field) {
      return;
    }
    var chip = field.heading && make("span", "", "", make("span", "chip", field.heading));
    var legend = make("p", "legend", "", chip);
    legend.appendChild(document.createTextNode(field.label));
    into.appendChild(legend);
    field.options.forEach(function (option) {
      var words = make("span", "", "", make("b", "", option.label), option.detail && make("span", "muted", option.detail));
      var element = make("button", "option", "", words);
      element.type = "button";
      element.dataset.action = offer.name;
      element.dataset.option = option.label;
      element.addEventListener("click", function () {
        press(item.id, offer, element, [field.name, option.value]);
      });
      into.appendChild(element);
    });
  }

  function drawRefusals(item, offers) {
    var box = make("div", "refuse");
    var pair = make("div", "pair");
    offers.forEach(function (offer) {
      drawFields(item, offer, box);
      pair.appendChild(button(item, offer));
    });
    box.appendChild(pair);
    return box;
  }

  function drawFields(item, offer, into) {
    item.fields.forEach(function (field) {
      if (offer.fields.indexOf(field.name) >= 0) {
        into.appendChild(DRAWN[field.type](item, offer, field));
      }
    });
  }

  var DRAWN = { text: drawText, lines: drawLines, one: drawChoice, many: drawChoice };

  function drawLines(item, offer, field) {
    var element = make("textarea");
    element.name = field.name;
    element.value = field.value;
    element.maxLength = field.limit;
    element.spellcheck = false;
    element.placeholder = field.hint;
    element.dataset.offer = offer.name;
    return make("label", "field", field.label, element);
  }

  function input(offer, field, type, value) {
    var element = make("input");
    element.type = type;
    element.name = field.name;
    element.value = value;
    element.dataset.offer = offer.name;
    return element;
  }

  function drawText(item, offer, field) {
    var element = input(offer, field, "text", field.value);
    element.maxLength = field.limit;
    element.autocomplete = "off";
    element.placeholder = field.hint;
    element.addEventListener("keydown", function (event) {
      // Enter that ends an input method's composition is not an answer.
      if (event.key === "Enter" && !event.isComposing && event.keyCode !== 229) {
        event.preventDefault();
        press(item.id, offer);
      } else if (event.key === "Escape") {
        cards[item.id].node.focus();
      }
    });
    return make("label", "field", field.label, element);
  }

  function drawChoice(item, offer, field) {
    var box = make("fieldset", "", "", make("legend", "", field.label));
    field.options.forEach(function (option) {
      var element = input(offer, field, field.type === "many" ? "checkbox" : "radio", option.value);
      element.id = [item.id, offer.name, field.name, option.value].join(" ");
      element.name = [item.id, field.name].join(" "); // radio buttons of one request belong together
      element.dataset.field = field.name;
      element.checked = option.value === field.value;
      var words = make("span", "", "", make("b", "", option.label), option.detail && make("span", "muted", option.detail));
      box.appendChild(make("label", "option", "", element, words));
    });
    return box;
  }

  function button(item, offer) {
    if (offer.opens) {
      var opener = link(offer.look, offer.label, offer.link);
      opener.dataset.action = offer.name;
      return opener;
    }
    var element = make("button", offer.look, offer.label);
    element.type = "button";
    element.dataset.action = offer.name;
    element.addEventListener("click", function () {
      press(item.id, offer);
    });
    return element;
  }

  function find(card, offer) {
    return card.node.querySelector("[data-action=" + CSS.escape(offer.name) + "]");
  }

  // Deciding.

  // `pressed` and `chosen` are an option's; other buttons are found by their offer.
  function press(id, offer, pressed, chosen) {
    var card = cards[id];
    if (!card || card.sent || card.over || (offer.opens && !pressed) || Date.now() < stillUntil) {
      return;
    }
    pressed = pressed || find(card, offer);
    var label = [].slice.call(pressed.childNodes);
    card.sent = true;
    var sending = post(card, offer, chosen); // reads the fields: before they are frozen
    freeze(card, true);
    pressed.textContent = t("inbox.sending");
    function again(title, lines) {
      card.sent = false;
      freeze(card, card.over);
      pressed.replaceChildren.apply(pressed, label);
      tell(card, "late", title, lines);
    }
    sending.then(
      function (result) {
        if (result.over) {
          settle(card, result.look, result.title, result.lines);
        } else {
          again(result.title, result.lines);
        }
      },
      function () {
        again(t("inbox.failed"), []);
      }
    );
  }

  function post(card, offer, chosen) {
    var parts = offer.link.split("?");
    var form = new URLSearchParams(parts[1] || "");
    form.set("digest", card.item.digest);
    if (chosen) {
      form.append(chosen[0], chosen[1]);
    }
    card.node.querySelectorAll("[data-offer=" + CSS.escape(offer.name) + "]").forEach(function (element) {
      if (element.tagName === "TEXTAREA") {
        form.append(element.name, element.value); // letter by letter
      } else if (element.type === "text" ? element.value.trim() : element.checked) {
        form.append(element.dataset.field || element.name, element.value.trim());
      }
    });
    return deliver(parts[0], form);
  }

  function deliver(path, form) {
    return fetch(path, {
      method: "POST",
      body: form,
      headers: { "X-Feishuperm": "1", Accept: "application/json" },
    }).then(function (response) {
      return response.json();
    });
  }

  function freeze(card, frozen) {
    card.node.querySelectorAll("button[data-action], input, textarea").forEach(function (element) {
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
    card.row.remove();
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
        cards[item.id].deadline = news.deadlines[item.id];
        drawAbout(item, cards[item.id].about);
        cards[item.id].zero.textContent = item.zero;
        cards[item.id].holder.hidden = !item.hold;
      } else {
        arrive(item, news.deadlines[item.id]);
      }
    });
    Object.keys(cards).forEach(function (id) {
      if (!present[id] && !cards[id].leaving && !cards[id].sent) {
        settleElsewhere(cards[id]);
      }
    });
    drawRecent(news.recent);
    drawPasses(news.passes);
    more = Math.max(0, (news.waiting_count || 0) - news.waiting.length);
    count();
    first = false;
    tick();
  }

  function arrive(item, deadline) {
    cards[item.id] = drawCard(item);
    cards[item.id].deadline = deadline;
    list.appendChild(cards[item.id].node); // last: what is there does not move
    rail.appendChild(cards[item.id].row);
    if (!first) {
      var news = t("inbox.arrived", { what: item.tool + " · " + item.project_name });
      announce(news);
      alarm(item.id, news);
    }
  }

  function settleElsewhere(card) {
    var how = ended[card.item.id];
    var lines = how && how.surface ? [how.surface] : [];
    settle(card, how ? how.look : "late", how ? how.done : t("inbox.ended"), lines);
    announce(t("inbox.settled", { what: card.item.tool + (how ? " · " + how.done : "") }));
  }

  function drawPasses(items) {
    var box = document.getElementById("pass-list");
    document.getElementById("passes").hidden = !items.length;
    box.textContent = "";
    items.forEach(function (item) {
      var form = make("form", "stack", "", make("button", "plain", t("pass.revoke")));
      var id = make("input");
      form.method = "post";
      form.action = "passes";
      id.type = "hidden";
      id.name = "pass";
      id.value = item.id;
      form.appendChild(id);
      var row = make("li", "stack", "", make("code", "rule", item.what));
      row.appendChild(make("span", "muted", item.about));
      row.appendChild(form);
      box.appendChild(row);
    });
  }

  function drawRecent(items) {
    var box = document.getElementById("recent");
    document.getElementById("recent-part").hidden = !items.length;
    box.textContent = "";
    items.forEach(function (item) {
      var row = make("div", "row", "", make("span", "", item.what), make("span", "done-" + item.look, item.done));
      var facts = [item.project_name, time(item.ended), item.who, item.surface].filter(Boolean).join(" · ");
      var what = item.detail && make("code", "detail", item.detail);
      var entry = make("li", "", "", row, what, make("p", "muted", facts));
      if (item.result) {
        entry.appendChild(make("p", "done-" + item.result_look, item.result));
      }
      if (item.ran) {
        entry.appendChild(make("code", "rule", item.ran));
      }
      item.rules.forEach(function (rule) {
        var undone = item.undone.indexOf(rule) >= 0;
        entry.appendChild(make("code", "rule", undone ? "" : rule, undone && make("s", "", rule)));
      });
      if (item.undo) {
        entry.appendChild(drawUndo(item));
      }
      var reason = item.reason ? [t("page.key.reason") + ": " + item.reason] : [];
      var head = item.head ? [t("page.key.head") + ": " + item.head] : [];
      item.notes.concat(reason, head).forEach(function (line) {
        entry.appendChild(make("p", "muted", line));
      });
      box.appendChild(entry);
    });
  }

  function drawUndo(item) {
    var element = make("button", "plain small", t("button.undo"));
    element.type = "button";
    element.addEventListener("click", function () {
      element.disabled = true;
      var parts = item.undo.split("?");
      deliver(parts[0], new URLSearchParams(parts[1])).then(
        function (result) {
          element.replaceWith(make("p", "muted", result.line));
        },
        function () {
          element.disabled = false;
          announce(t("inbox.failed"));
        }
      );
    });
    return element;
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
    document.getElementById("desk").hidden = !empty.hidden;
    if (!cards[shown] && list.firstChild) {
      show(list.firstChild.id.slice("request-".length));
    }
  }

  function announce(text) {
    document.getElementById("news").textContent = text;
  }

  function counted(left) {
    var minutes = Math.floor(left / 60);
    var hours = minutes < 60 ? "" : Math.floor(minutes / 60) + ":";
    return hours + (hours ? two(minutes % 60) : minutes) + ":" + two(left % 60);
  }

  function two(number) {
    return ("0" + number).slice(-2);
  }

  function tick() {
    var now = Date.now() + skew;
    Object.keys(cards).forEach(function (id) {
      var card = cards[id];
      if (card.leaving) {
        return;
      }
      var left = Math.ceil((card.deadline * 1000 - now) / 1000);
      var all = card.deadline - card.item.created;
      var shownLeft = counted(left);
      card.clock.textContent = left > 0 ? t("page.left", { left: shownLeft }) : t("page.time_over");
      card.clock.classList.toggle("soon", left <= SOON);
      card.row.querySelector(".left").textContent = left > 0 ? shownLeft : "";
      card.bar.classList.toggle("soon", left <= SOON);
      card.bar.firstChild.style.transform = "scaleX(" + Math.max(0, Math.min(1, left / all)) + ")";
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
    offerAlarm("ring", function (then) {
      then();
    });
    document.addEventListener("pointerdown", wakeSound);
    document.addEventListener("keydown", wakeSound);
  }
  if (window.isSecureContext && window.Notification) {
    offerAlarm("notify", function (then) {
      Notification.requestPermission().then(then);
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
      show(id);
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
    cards[id].row.scrollIntoView({ block: "nearest" });
  }

  function act(key) {
    if (!cards[selected]) {
      move(1); // the first press only shows which request the next one is about
    } else if (DIGIT.test(key)) {
      var option = cards[selected].node.querySelectorAll("[data-option]")[key - 1];
      if (option) {
        option.click();
      }
    } else if (key === "r" || key === "Enter") {
      var wanted = key === "r" ? "input[type=text]" : "[data-role]";
      var element = cards[selected].node.querySelector(wanted);
      if (element) {
        element[key === "r" ? "focus" : "click"]();
      }
    } else {
      cards[selected].item.offers.forEach(function (offer) {
        if (offer.key === key) {
          find(cards[selected], offer).click();
        }
      });
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
    if (tag === "INPUT" || tag === "TEXTAREA" || (event.key === "Enter" && (tag === "BUTTON" || tag === "A" || tag === "SUMMARY"))) {
      return;
    }
    var key = event.key.length === 1 ? event.key.toLowerCase() : event.key;
    if (key === "j" || key === "ArrowDown" || key === "k" || key === "ArrowUp") {
      move(key === "j" || key === "ArrowDown" ? 1 : -1);
    } else if (key === "?") {
      toggleHelp(true);
    } else if (key === "r" || key === "Enter" || DIGIT.test(key) || (boot.keys.indexOf(key) >= 0 && !event.shiftKey)) {
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

  if (location.search) {
    history.replaceState(null, "", location.pathname); // a spent ticket is no address
  }
  try {
    sessionStorage.setItem("inbox", location.href); // the way back from a request's page
  } catch (error) {
    // storage is switched off: then there is the browser's own way back
  }
  draw(boot);
  setInterval(tick, 500);
  connect();
})();
