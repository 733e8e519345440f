"""The sentences of the command line in Chinese.

One row per sentence: the English as its source has it, with `{}` for each hole, and the
Chinese.  `{}` is the next hole and `{2}` the second one, kept to the letter; in `{~}` a
sentence of ours is to be expected, which is translated too.  `lib.tongue` says how rows
are found; tests/lib/test_chinese.py that none is missing and none too many.
"""

from __future__ import annotations

# Commands and their `--help`.
HELP = (
    ("usage:", "用法："),
    (
        "Answer Claude Code's permission requests from Feishu.",
        "在飞书里答复 Claude Code 的权限请求。",
    ),
    (
        "`feishuperm COMMAND --help` says more about one of them.",
        "`feishuperm COMMAND --help` 查看某个命令的说明。",
    ),
    ("run the server in the foreground", "在前台运行服务"),
    (
        "read one hook event on stdin, print the decision",
        "从标准输入读一个钩子事件，输出决定",
    ),
    (
        "reviews stops and questions (a hook); on, off and status switch it",
        "审查停止和提问（钩子）；用 on、off、status 切换",
    ),
    (
        "a headless Claude session with your hooks and Feishu approval",
        "无界面的 Claude 会话，带上你的钩子和飞书审批",
    ),
    (
        "look at what a project would run, and trust exactly that",
        "看清项目会运行什么，只信任看到的这些内容",
    ),
    (
        "what goes through without asking for a while: list, make, revoke",
        "一段时间内不再询问的内容：列出、新建、收回",
    ),
    ("register hooks, service and config file", "注册钩子、服务和配置文件"),
    ("undo exactly what install did", "精确撤销 install 所做的一切"),
    ("check every hop from hook to phone", "逐段检查从钩子到手机的链路"),
    (
        "end the server; what waits goes back to the terminals",
        "停止服务；等待中的请求交回终端",
    ),
    (
        "start the server anew; what waits goes on waiting",
        "重新启动服务；等待中的请求继续等待",
    ),
    (
        "is it running, which channels are up, what is waiting",
        "是否在运行、哪些渠道可用、有什么在等待",
    ),
    (
        "try it without Feishu and without Claude Code",
        "不需要飞书和 Claude Code，先试一试",
    ),
    ("send a real card and wait for the tap", "发一张真实的卡片，等你点按"),
    (
        "the decision ledger: show, verify, take a rule back",
        "决定记录：查看、校验、收回规则",
    ),
    (
        "one Feishu app for many machines, in the foreground",
        "多台机器共用一个飞书应用的网关，前台运行",
    ),
    (
        "let a team's gateway carry this machine's requests",
        "让团队网关转发这台机器的请求",
    ),
    ("leave the gateway that this machine has joined", "退出这台机器加入的网关"),
    ("on a gateway: list, rename and revoke machines", "在网关上列出、改名、移除机器"),
    ("version, commit, Python", "版本、提交、Python"),
    # Their options.
    ("for programs", "供程序读取"),
    ("only say what would be done", "只说明会做什么，不做改动"),
    ("answer by itself and end", "自动应答，然后结束"),
    ("open no browser", "不打开浏览器"),
    ("one JSON object for each answer", "每个回答输出一个 JSON 对象"),
    (
        "Starts a server of its own on a free port, asks one request of each kind "
        "through real\n"
        "hooks, and shows what each hook prints for your tap.",
        "在空闲端口上另起一个服务，通过真实的钩子各发一个请求，\n"
        "并显示每个钩子因你的点按而输出的内容。",
    ),
    (
        "One line per check: ok, warn or fail, what was found, and the command that "
        "mends it.\n"
        "Sends one test card to a group bot. Exit code 1 if anything fails.\n"
        "With a NUMBER that a phone shows when a tap fails: what it means and what "
        "mends it.",
        "每项检查一行：正常、警告或失败，查到了什么，以及修复用的命令。\n"
        "会向群机器人发一张测试卡片。有任何一项失败时退出码为 1。\n"
        "加上点按失败时手机显示的数字（NUMBER）：说明它的含义和解决办法。",
    ),
    ("such as 200340, as a phone shows it", "手机上显示的数字，例如 200340"),
    (
        "Machines join it with `feishuperm join ADDRESS`. It needs FEISHU_APP_ID and\n"
        "FEISHU_APP_SECRET; GATEWAY_CERT and GATEWAY_KEY, or a proxy in front for "
        "TLS;\n"
        "FEISHUPERM_ENGINE for several of them at once.",
        "机器用 `feishuperm join ADDRESS` 加入。需要 FEISHU_APP_ID 和 "
        "FEISHU_APP_SECRET；\n"
        "TLS 用 GATEWAY_CERT 和 GATEWAY_KEY，或者在前面放一个代理；\n"
        "同时运行多个网关时需要 FEISHUPERM_ENGINE。",
    ),
    (
        "Installs the file it runs from for the current user: the program, hooks in "
        "Claude Code's\n"
        "settings, config.env, a running server. Running it again is safe, and "
        "upgrades.\n"
        "Settings in the environment, such as FEISHU_WEBHOOK_URL, are kept in "
        "config.env.",
        "为当前用户安装这个文件：程序本身、Claude Code 设置里的钩子、config.env、运行"
        "中的服务。\n"
        "可以放心地重复运行，再次运行就是升级。\n"
        "环境变量里的设置（例如 FEISHU_WEBHOOK_URL）会保存到 config.env。",
    ),
    (
        "register the hooks in this folder's .claude/settings.local.json",
        "把钩子注册到当前目录的 .claude/settings.local.json",
    ),
    (
        "with --project: in its settings.json, harmless for who lacks us",
        "与 --project 同用：写入 settings.json，不影响没装的同事",
    ),
    ("leave Claude Code's settings alone", "不改动 Claude Code 的设置"),
    (
        "also review stops and questions before they reach you",
        "停止和提问在到你之前先经过审查",
    ),
    ("take that out again", "去掉监督者"),
    (
        "let Claude Code ask about pushes, publishing, deleting ... always",
        "让 Claude Code 遇到推送、发布、删除等总是询问",
    ),
    ("take those rules out again", "去掉这些规则"),
    ("do not start or keep the server", "不启动服务，也不让它常驻"),
    ("go through the questions again", "重新回答安装时的问题"),
    ("by one more scan, give the app what it lacks", "再扫一次码，补上应用缺少的东西"),
    ("show the link alone", "只显示链接"),
    (
        "keep a gateway running instead, by systemd: one app, many machines",
        "改为用 systemd 常驻一个网关：多台机器共用一个应用",
    ),
    ("never ask anything", "不提任何问题"),
    (
        "where share/ and bin/ are (default: ~/.local)",
        "share/ 和 bin/ 所在的目录（默认 ~/.local）",
    ),
    (
        "more to tell (Stop, Notification, ...) or to ask you (next, denied, form)",
        "还要通知（Stop、Notification 等）或询问你（next、denied、form）的事件",
    ),
    (
        "let Claude Code ask: sets permissions.defaultMode",
        "让 Claude Code 询问：设置 permissions.defaultMode",
    ),
    ("events of ours to take out again", "要去掉的事件"),
    ("how to keep the server running", "用什么方式让服务常驻"),
    ("the Feishu group bot", "飞书群机器人的地址"),
    ("its signing secret", "它的签名密钥"),
    ("draw the QR code to this SVG file", "把二维码画到这个 SVG 文件"),
    ("what the buttons point to", "按钮指向的地址"),
    ("of cards, pages and the command line", "卡片、页面和命令行的语言"),
    (
        "how long a request waits, such as 10m; sets the hook's time-out too",
        "请求等待多久，例如 10m；同时设置钩子的超时",
    ),
    ("the port of the server; 0: a free one", "服务的端口；0：自动选一个空闲端口"),
    (
        "Prints six digits and waits; send them to the bot in Feishu and confirm "
        "there. Only the\n"
        "person who confirmed can answer this machine's requests through the gateway. "
        "People who\n"
        "run the gateway could press the buttons of its cards in that person's name.",
        "显示六位配对码并等待；在飞书里发给机器人并确认。\n"
        "只有确认的那个人能通过网关答复这台机器的请求。\n"
        "管理网关的人可以冒用这个人的名义按卡片上的按钮。",
    ),
    ("of this machine; its host name", "这台机器的名字；默认是主机名"),
    ("e-mail or open_id to ask", "请谁确认：邮箱或 open_id"),
    ("without encryption, on your own risk", "允许不加密，风险自负"),
    (
        "verify checks that no line was changed, taken out or put in, and that none "
        "is missing;\n"
        'undo ID takes back the rules that "always allow" wrote for a request.',
        "verify 检查有没有哪一行被改动、删除、插入或缺失；\n"
        "undo ID 收回「始终允许」为某个请求写下的规则。",
    ),
    ("the last N entries (default {}, 0 for all)", "最近 N 条（默认 {}，0 表示全部）"),
    ("as JSON, with every field", "JSON 格式，包含所有字段"),
    ("for a spreadsheet; -n 0 for all of it", "供电子表格使用；-n 0 输出全部"),
    ("what a card or a page showed at its end", "卡片或页面末尾显示的那串字符"),
    ("all machines of this person", "这个人的所有机器"),
    (
        'RULE is exact, as "always allow" would write it: Bash(npm test), '
        "Edit(//abs/path),\n"
        "Read(//abs/path), WebFetch(domain:host). It holds in the project (this "
        "folder, or\n"
        "--project) for calls made in that very folder, or in the session that "
        "--session names\n"
        "for calls that run no local file; for 10 minutes if nothing else is said, "
        "and for 24\n"
        "hours at most. It ends when a local file that the call runs is changed. "
        "What bears a\n"
        "danger mark still asks.",
        "RULE 必须精确，写法与「始终允许」写下的一样：Bash(npm test)、"
        "Edit(//abs/path)、\n"
        "Read(//abs/path)、WebFetch(domain:host)。\n"
        "只管在项目目录（当前目录或 --project）中的调用，或 --session 指定的会话中\n"
        "不运行本地文件的调用；默认 10 分钟，最长 24 小时。\n"
        "所运行的本地文件一旦改变就结束。带危险标记的操作仍会询问。",
    ),
    ("for N calls", "有效 N 次"),
    ("for N minutes", "有效 N 分钟"),
    ("in this session only", "只在这个会话里"),
    ("in this project (default: this folder)", "在这个项目里（默认当前目录）"),
    (
        "exit code: 0 finished, 1 Claude failed, 2 wrong arguments, 3 a tool was "
        "refused, 130 interrupted",
        "退出码：0 完成，1 Claude 出错，2 参数有误，3 有操作被拒绝，130 被中断",
    ),
    (
        "what to do; `-` or nothing: read from stdin",
        "要做什么；`-` 或省略：从标准输入读取",
    ),
    ("go on with the last session here", "继续这里的上一个会话"),
    ("go on with a session", "继续某个会话"),
    ("the model Claude uses", "Claude 使用的模型"),
    ("Claude's permission mode", "Claude 的权限模式"),
    ("print Claude's result as JSON", "以 JSON 输出 Claude 的结果"),
    (
        "A unix socket for hooks, HTTP for browsers, and the cards to Feishu. "
        "Settings come from\n"
        "the environment and config.env; SIGTERM hands what waits back to the "
        "terminals and ends\n"
        "it.",
        "unix socket 供钩子使用，HTTP 供浏览器使用，并把卡片发到飞书。\n"
        "设置来自环境变量和 config.env；收到 SIGTERM 时把等待中的请求交回终端，然后结"
        "束。",
    ),
    (
        "the inbox for a phone: its link as a QR code",
        "用手机打开收件箱：把链接显示成二维码",
    ),
    ("where you stand, and the next step", "现状和下一步"),
    (
        "Without an argument it reads one hook event (Stop, SubagentStop, or "
        "PreToolUse of\n"
        "AskUserQuestion) on stdin. Registered in settings.json it is on; the "
        "switches are for\n"
        "this project, or for one session.\n"
        "\n"
        "SUPERVISOR_COMMAND (default: claude) is the reviewer. It is started in the "
        "project with\n"
        "  -p --resume SESSION --fork-session --output-format json --json-schema "
        "SCHEMA\n"
        "  --tools Read,Glob,Grep --permission-mode dontAsk --max-budget-usd 2 (and "
        "hooks off),\n"
        "gets the prompt on stdin (~/.claude/SUPERVISOR.md, or the built-in one), and "
        "must print\n"
        '{"type": "result", "structured_output": {"allow_stop": true, "feedback": '
        '"..."}}. True\n'
        "lets Claude stop, or ask you; false sends it back to work with the feedback. "
        "A reviewer\n"
        "that fails, is late or prints anything else counts as true, and the log says "
        "so.\n"
        "\n"
        "What it may cost: a review reads the session once more, for 2 dollars at "
        "most. There are\n"
        "up to SUPERVISOR_MAX_ITERATIONS for one prompt of yours. Claude Code itself "
        "ends a turn\n"
        "after CLAUDE_CODE_STOP_HOOK_BLOCK_CAP blocked stops in a row; install raises "
        "that.",
        "不带参数时，从标准输入读一个钩子事件（Stop、SubagentStop，或 AskUserQuestion "
        "的\n"
        "PreToolUse）。注册在 settings.json 里就是开启；on 和 off 针对当前项目或某一个"
        "会话。\n"
        "\n"
        "SUPERVISOR_COMMAND（默认 claude）是审查者，在项目目录里这样启动：\n"
        "  -p --resume SESSION --fork-session --output-format json --json-schema "
        "SCHEMA\n"
        "  --tools Read,Glob,Grep --permission-mode dontAsk --max-budget-usd 2（不带钩"
        "子）\n"
        "提示词从标准输入给它（~/.claude/SUPERVISOR.md，没有则用内置的），它必须输出\n"
        '{"type": "result", "structured_output": {"allow_stop": true, "feedback": '
        '"..."}}。\n'
        "true 表示允许 Claude 停下或向你提问；false 表示带着意见继续干活。\n"
        "审查者出错、超时或输出别的内容，都算 true，并写入日志。\n"
        "\n"
        "费用：每次审查要把会话重读一遍，最多 2 美元；你的每次提示最多审查\n"
        "SUPERVISOR_MAX_ITERATIONS 次。连续拦截 CLAUDE_CODE_STOP_HOOK_BLOCK_CAP 次后，"
        "\n"
        "Claude Code 会自行结束这一轮；install 会调高这个上限。",
    ),
    (
        "one session; without ID the one this command runs in",
        "某一个会话；不写 ID 就是运行本命令的会话",
    ),
    ("for status: everything as JSON", "用于 status：以 JSON 输出全部内容"),
    (
        "Needs a running server with a Feishu app or group bot. Exit code 1 if the "
        "card does not\n"
        "get out or nobody taps in time.",
        "需要运行中的服务，并已接入飞书应用或群机器人。\n"
        "卡片发不出去或没有人及时点按时，退出码为 1。",
    ),
    ("what the hook printed", "输出钩子打印的内容"),
    (
        "DIR is the folder a session starts in, by default this one. Trust holds for "
        "the\n"
        "very content that was shown; any change needs it again. Folders that Claude "
        "Code\n"
        "itself trusts need none.",
        "DIR 是会话启动时所在的目录，默认当前目录。信任只针对看到的那份内容，\n"
        "任何改动都要重新信任。Claude Code 自己信任的目录不需要这一步。",
    ),
    (
        "Claude Code's settings come back byte for byte if nobody else changed them "
        "since;\n"
        "otherwise exactly our own hooks leave them.",
        "如果别人没有再改过，Claude Code 的设置会逐字节还原；\n"
        "改过的话，只移除我们自己的钩子。",
    ),
    (
        "also remove config.env, the decision log and everything else of ours",
        "连同 config.env、决定记录和我们的其他文件一起删除",
    ),
    (
        "As JSON also the build id, the interpreter's path, and whether the code is "
        "compiled for\n"
        'it ("fast").',
        'JSON 格式还包括构建 id、解释器路径，以及代码是否已为它编译（"fast"）。',
    ),
)

# What is wrong with a command line, a setting or a file.
MISTAKES = (
    ("hint: {}", "提示：{~}"),
    ("no command given", "没有给出命令"),
    ("unknown option {}", "没有 {} 这个选项"),
    ("unknown command {}", "没有 {} 这个命令"),
    ("did you mean `feishuperm {}`?", "是不是想用 `feishuperm {}`？"),
    ("did you mean {}?", "是不是想写 {}？"),
    ("{} is not {}", "{~} 不符合要求，应为：{~}"),
    ("{} is no number", "{} 不是数字"),
    (
        "{} is no duration: from 1s to 24h, such as 10m",
        "{} 不是时长：可以是 1s 到 24h，例如 10m",
    ),
    (
        "{} is no port: a number from 1 to 65535, or 0 for a free one",
        "{} 不是端口：可以是 1 到 65535 的数字，或者用 0 自动选一个空闲端口",
    ),
    (
        "{} belongs to {}: root would leave files there that this user cannot change",
        "{} 属于 {}：以 root 运行会在那里留下该用户无法修改的文件",
    ),
    ("as {}, without sudo: {}", "请以 {} 的身份、不用 sudo 运行：{}"),
    ("{} is missing", "缺少 {}"),
    ("unknown argument {}", "没有 {} 这个参数"),
    ("{} takes no arguments, got {}", "{} 不带参数，却收到 {}"),
    ("{} needs a value", "{} 需要一个值"),
    ("--{} and --{} contradict", "--{} 和 --{} 互相矛盾"),
    ("--shared goes with --project", "--shared 要和 --project 一起用"),
    ("only a built file can install itself", "只有构建好的文件才能安装自己"),
    ("this user has no home folder", "当前用户没有主目录"),
    ("set HOME to one", "把 HOME 设为一个存在的目录"),
    ("undo needs the id of one request", "undo 需要一个请求的 id"),
    ("-n needs a number from 0 up", "-n 需要一个不小于 0 的数字"),
    (
        "--head needs the 8 to 64 hex digits of a card, after verify",
        "--head 要跟在 verify 之后，并给出卡片上的 8 到 64 位十六进制数",
    ),
    ("it reads a hook event from stdin", "它从标准输入读取钩子事件"),
    ("--json is for status", "--json 只用于 status"),
    ("{} is no number we know", "不认识 {} 这个数字"),
    ("revoke what?", "收回哪一个？"),
    ("add what?", "要添加什么？"),
    (
        "--minutes and --calls need a number from 1 up",
        "--minutes 和 --calls 需要一个不小于 1 的数字",
    ),
    ("which machine?", "哪一台机器？"),
    ("which folder?", "哪个目录？"),
    ("no prompt given", "没有给出提示词"),
    ("the prompt is empty", "提示词是空的"),
    ("feishuperm run 'what to do'", "feishuperm run '要做什么'"),
    ("--events: {} is no hook event", "--events：没有 {} 这个钩子事件"),
    ("the current folder is gone", "当前目录已不存在"),
    ("cd, and again", "cd 到别处再试"),
    ("cannot read {}: {}", "无法读取 {}：{~}"),
    ("cannot read {}: larger than {} bytes", "无法读取 {}：超过 {} 字节"),
    ("cannot write {}: {}", "无法写入 {}：{~}"),
    ("cannot make {}: {}", "无法创建 {}：{~}"),
    ("cannot remove {}: {}", "无法删除 {}：{~}"),
    ("cannot link {}: {}", "无法链接 {}：{~}"),
    ("cannot use {}: {}", "无法使用 {}：{~}"),
    ("cannot lock {}: {}", "无法锁定 {}：{~}"),
    (
        "cannot write {}: its folder {} is read-only",
        "无法写入 {}：所在目录 {} 是只读的",
    ),
    ("cannot write {}: there is no such project", "无法写入 {}：没有这个项目"),
    (
        "cannot write {}: another program keeps changing it",
        "无法写入 {}：另一个程序不断在改它",
    ),
    ("it is read-only", "它是只读的"),
    ("it belongs to another user", "它属于另一个用户"),
    ("{} belongs to another user", "{} 属于另一个用户"),
    ("not a regular file", "不是普通文件"),
    ("{} is or goes through a link", "{} 是链接，或路径经过链接"),
    ("line {}: not UTF-8", "第 {} 行：不是 UTF-8"),
    ("line {}: not JSON: {}", "第 {} 行：不是合法的 JSON：{~}"),
    (
        "line {}: not JSON: text after the object",
        "第 {} 行：不是合法的 JSON：对象之后还有内容",
    ),
    ("not JSON: {}", "不是合法的 JSON：{~}"),
    ("not a JSON object", "不是 JSON 对象"),
    ("nested too deeply", "嵌套太深"),
    ("{} is no JSON number", "{} 不是 JSON 数字"),
    ("{}, line {}: {}", "{} 第 {} 行：{~}"),
    ("{}, line {}: expected KEY=VALUE", "{} 第 {} 行：应为 KEY=VALUE"),
    ("the path of the program is not UTF-8", "程序的路径不是 UTF-8"),
    ("an object", "对象"),
    ("a list", "列表"),
    ("the file", "文件"),
    ("permissions.allow is not a list", "permissions.allow 不是列表"),
    (
        "{}: a value cannot hold line ends or outer blanks",
        "{}：值里不能有换行，首尾不能有空格",
    ),
    # Settings.
    ("its value", "它的值"),
    (
        "the address of a custom bot, .../open-apis/bot/v2/hook/..., or its token",
        "自定义机器人的地址（.../open-apis/bot/v2/hook/...）或它的 token",
    ),
    ("any text", "任意文本"),
    ("the id of a self-built app, cli_...", "自建应用的 id，cli_..."),
    (
        "an open_id (ou_), a chat (oc_), an e-mail address or a user_id",
        "open_id（ou_）、群（oc_）、邮箱或 user_id",
    ),
    ("a comma list of open_ids (ou_)", "用逗号分隔的 open_id（ou_）"),
    ("off or app", "off 或 app"),
    ("off or on", "off 或 on"),
    (
        "a comma list of addresses or networks, such as 10.0.0.0/8",
        "用逗号分隔的地址或网段，例如 10.0.0.0/8",
    ),
    ("an http:// or https:// address", "http:// 或 https:// 地址"),
    ("`all`, an open_id, or nothing", "`all`、某个 open_id 或留空"),
    ("an address of this machine", "这台机器的一个地址"),
    ("0 to 65535", "0 到 65535"),
    ("0 to 1000", "0 到 1000"),
    ("1 to 3600", "1 到 3600"),
    ("on or off", "on 或 off"),
    ("auto, on or off", "auto、on 或 off"),
    ("an absolute path of at most 103 bytes", "不超过 103 字节的绝对路径"),
    ("whole seconds from 1 to 86400", "1 到 86400 的整数秒"),
    ("whole seconds from 0 to 86400", "0 到 86400 的整数秒"),
    ("whole seconds from 0 to 86400, or auto", "0 到 86400 的整数秒，或 auto"),
    ("deny or terminal", "deny 或 terminal"),
    ("a comma list of {}", "用逗号分隔的列表：{}"),
    ("full or title", "full 或 title"),
    ("an absolute path", "绝对路径"),
    (
        "redis://, rediss:// or redis+sentinel:// and an address",
        "redis://、rediss:// 或 redis+sentinel:// 加地址",
    ),
    ("zh or en", "zh 或 en"),
    (
        "FEISHU_RECEIVE_ID: nobody is named who gets the app's cards",
        "FEISHU_RECEIVE_ID：没有指明应用把卡片发给谁",
    ),
    (
        "FEISHU_OWNER_ID: name who may tap, since FEISHU_RECEIVE_ID is not the "
        "open_id of one person",
        "FEISHU_OWNER_ID：请指明谁可以点按，因为 FEISHU_RECEIVE_ID 不是某一个人的 "
        "open_id",
    ),
    (
        "FEISHUPERM_ENGINE: its value is not redis://[user:password@]host[:port][/db],"
        " rediss:// the same, or redis+sentinel://host:port,.../master[/db]",
        "FEISHUPERM_ENGINE：它的值应为 redis://[user:password@]host[:port][/db]、同样"
        "写法的 rediss://，或 redis+sentinel://host:port,.../master[/db]",
    ),
)

# The server: started, stopped, asked.
SERVER = (
    ("the server is not running on {}", "服务没有在 {} 上运行"),
    ("the server is not running", "服务没有运行"),
    ("the server did not answer within {} seconds", "服务在 {} 秒内没有回应"),
    (
        "feishuperm status, or restart it: feishuperm install",
        "feishuperm status，或重新启动：feishuperm install",
    ),
    (
        "the server answered with something else than an object",
        "服务的回应不是一个对象",
    ),
    (
        "the server says nothing of {}: it is of another version",
        "服务没有说明 {}：它是另一个版本",
    ),
    ("no server is running", "没有服务在运行"),
    ("a server is already running on {}", "已有服务在 {} 上运行"),
    ("no folder {} for the socket", "没有放 socket 的目录 {}"),
    (
        "set PERMISSION_SOCKET_PATH to another path",
        "把 PERMISSION_SOCKET_PATH 设为别的路径",
    ),
    ("{} exists and is not a socket", "{} 已存在，但不是 socket"),
    ("cannot listen on {}: {}", "无法监听 {}：{~}"),
    ("cannot listen on {}:{}: {}", "无法监听 {}:{}：{~}"),
    ("cannot listen on {} port {}: {}", "无法监听 {} 的 {} 端口：{~}"),
    (
        "CALLBACK_SERVER_HOST: {} is not an address of this machine",
        "CALLBACK_SERVER_HOST：{} 不是这台机器的地址",
    ),
    (
        "set CALLBACK_SERVER_HOST to an address of this machine",
        "把 CALLBACK_SERVER_HOST 设为这台机器的地址",
    ),
    (
        "port {} on {} is taken by another program (CALLBACK_SERVER_PORT)",
        "{2} 的 {1} 端口被另一个程序占用（CALLBACK_SERVER_PORT）",
    ),
    (
        "set CALLBACK_SERVER_PORT to a free port, and the port in CALLBACK_SERVER_URL "
        "with it",
        "把 CALLBACK_SERVER_PORT 设为空闲端口，并相应修改 CALLBACK_SERVER_URL 里的端口",
    ),
    (
        "port {} needs a privilege this user does not have (CALLBACK_SERVER_PORT)",
        "当前用户没有使用 {} 端口的权限（CALLBACK_SERVER_PORT）",
    ),
    (
        "set CALLBACK_SERVER_PORT to 1024 or more",
        "把 CALLBACK_SERVER_PORT 设为 1024 或更大",
    ),
    ("port {} is taken by another program", "{} 端口被另一个程序占用"),
    (
        "choose another one: feishuperm install --port N",
        "换一个端口：feishuperm install --port N",
    ),
    ("ports 8080 to {} are all taken", "8080 到 {} 的端口都被占用"),
    (
        "this Python on {} has neither epoll nor kqueue, and {} cannot carry "
        "thousands of waiting hooks",
        "{} 上的这个 Python 既没有 epoll 也没有 kqueue，而 {} 承受不了成千上万个等待的"
        "钩子",
    ),
    (
        "another server of this machine already serves this Feishu app",
        "这台机器上已有另一个服务在用这个飞书应用",
    ),
    ("this machine has not joined {}", "这台机器还没有加入 {}"),
    ("it was started, but does not answer", "已经启动，但没有回应"),
    ("the running server does not stop", "运行中的服务停不下来"),
    ("the server, process {}, does not end", "服务（进程 {}）没有结束"),
    ("handed over to the new server: {} waiting", "{} 个等待中的请求已转交新的服务"),
    ("stopped the server{}", "服务已停止{~}"),
    ("stopped the server", "服务已停止"),
    ("; {} waiting went back to the terminal{}", "；{} 个等待中的请求已交回终端{~}"),
    ("; it starts again at the next login", "；下次登录时会再启动"),
    ("; {}", "；{~}"),
    ("restarted ({}, pid {}){}", "已重新启动（{~}，pid {}）{~}"),
    ("restarted (foreground, pid {})", "已在原来的终端里重新启动（pid {}）"),
    (
        "no installed server to restart: no server is running",
        "没有可以重启的服务：既没有安装，也没有在运行",
    ),
    ("keep one running: feishuperm install", "让它常驻：feishuperm install"),
    ("a server still listens on {}", "仍有服务在监听 {}"),
    ("end it by hand: feishuperm status", "请手动结束它：feishuperm status"),
    ("keep the server running ({})", "让服务常驻（{~}）"),
    (
        "{} cannot keep the server running here: {} does not answer; nothing was "
        "changed",
        "{} 无法让服务在这里常驻：{} 没有回应；没有做任何改动",
    ),
    ("it starts again at every login", "每次登录时自动启动"),
    (
        "no service manager here: after a reboot, run `feishuperm restart`",
        "这里没有服务管理器：重启电脑后请运行 `feishuperm restart`",
    ),
    (
        "to keep it running after you log out: loginctl enable-linger",
        "想在注销后继续运行：loginctl enable-linger",
    ),
    ("{} failed", "{} 失败"),
    # status
    ("gateway  connected machines: {}", "网关      已连接的机器：{}"),
    ("up", "正常"),
    ("down", "断开"),
    ("inbox", "收件箱"),
    ("webhook", "群机器人"),
    ("app", "应用"),
    ("gateway", "网关"),
    ("engine", "引擎"),
    ("background", "后台进程"),
    ("foreground", "前台"),
    ("d", "天"),
    ("h", "小时"),
    ("min", "分钟"),
    ("s", "秒"),
    ("not connected yet", "尚未连接"),
    ("not connected", "未连接"),
    ("the connection was cut", "连接中断"),
    ("cannot dial: {}", "无法连接：{~}"),
    ("muted until {}", "静音到 {}"),
    ("{} open", "{} 个页面开着"),
    ("nothing sent yet", "还没有发过"),
    (
        "limited: {} cards wait, the next for {} s",
        "受限流：{} 张卡片在排队，下一张还要 {} 秒",
    ),
    ("settled before it could be sent", "还没发出就已了结"),
    ("no time left to send it", "来不及发送"),
    (
        "more requests are waiting than Feishu lets a bot send",
        "等待的请求超过了飞书允许机器人发送的数量",
    ),
    (
        "Feishu refused the card; only a text without buttons was sent",
        "飞书拒绝了卡片，只发了一条不带按钮的文字",
    ),
    ("the card could not be built", "卡片没能生成"),
    ("feishuperm is not installed", "feishuperm 还没有安装"),
    (
        "feishuperm is installed, but its server is not running",
        "feishuperm 已安装，但服务没有运行",
    ),
    ("feishuperm {} is running (pid {})", "feishuperm {} 正在运行（pid {}）"),
    ("channels: {}", "渠道：{}"),
    ("requests waiting: {}", "等待中的请求：{}"),
    ("next: {}", "下一步：{}"),
    (
        "scan it to open the inbox on a phone: good once, for ten minutes",
        "用手机扫码打开收件箱：只能用一次，十分钟内有效",
    ),
    (
        "feishuperm {} runs ({}, pid {}, for {})",
        "feishuperm {} 正在运行（{~}，pid {}，已 {}）",
    ),
    ("buttons", "按钮"),
    ("channel", "渠道"),
    ("waiting", "等待"),
    ("{} left", "还剩 {}"),
    ("danger: {}", "危险：{}"),
)

# Feishu: what it says of a bot, an app, a message.
FEISHU = (
    ("Feishu has an internal error", "飞书内部出错"),
    (
        "Feishu could not read the message, or it is too large",
        "飞书读不懂这条消息，或消息太大",
    ),
    ("the group does not take this kind of message", "这个群不接受这类消息"),
    (
        "the group is gone: make a bot in another group",
        "群已不存在：请在别的群里建机器人",
    ),
    ("too many messages for this bot", "这个机器人发得太多"),
    ("too many messages in this group", "这个群里消息太多"),
    (
        "only admins may mention all in this group: change FEISHU_AT",
        "这个群只有管理员可以 @所有人：请修改 FEISHU_AT",
    ),
    ("the group may not be written to", "这个群不能发消息"),
    ("Feishu refused the card", "飞书拒绝了卡片"),
    ("Feishu is sending too much at the moment", "飞书此刻发送量过大"),
    ("Feishu refused the content as sensitive", "飞书认为内容敏感，拒绝发送"),
    (
        "the bot has left the group: add it again, copy its new address",
        "机器人已被移出群：请重新添加并复制新地址",
    ),
    ("Feishu's audit refused the content", "内容没有通过飞书的审核"),
    (
        "the bot is unknown: copy FEISHU_WEBHOOK_URL again from the group",
        "没有这个机器人：请从群里重新复制 FEISHU_WEBHOOK_URL",
    ),
    ("Feishu refused the message's form", "飞书不接受这条消息的格式"),
    (
        "the bot is switched off: enable it in the group's settings",
        "机器人已停用：请在群设置里启用",
    ),
    (
        "the signature is refused: check FEISHU_WEBHOOK_SECRET and the clock",
        "签名校验失败：请检查 FEISHU_WEBHOOK_SECRET 和系统时间",
    ),
    (
        "this machine's address is not in the bot's IP list: add it there",
        "这台机器的地址不在机器人的 IP 白名单里：请加进去",
    ),
    (
        "the bot wants a keyword: add `Claude Code` to its keywords",
        "机器人要求关键词：请把 `Claude Code` 加入它的关键词",
    ),
    ("the message is too large for Feishu", "消息太大，飞书不接受"),
    ("the content was refused by a data loss rule", "内容被数据防泄漏规则拦下"),
    ("too many requests to Feishu", "对飞书的请求太多"),
    ("HTTP status {} and no answer of Feishu's", "HTTP 状态 {}，不是飞书的回应"),
    ("Feishu is busy", "飞书正忙"),
    (
        "FEISHU_APP_ID or FEISHU_APP_SECRET is malformed",
        "FEISHU_APP_ID 或 FEISHU_APP_SECRET 格式不对",
    ),
    (
        "the app is unknown or switched off: check FEISHU_APP_ID",
        "没有这个应用，或应用已停用：请检查 FEISHU_APP_ID",
    ),
    ("FEISHU_APP_SECRET is wrong", "FEISHU_APP_SECRET 不对"),
    ("the app has no bot, or was never published", "应用没有启用机器人，或从未发布"),
    (
        "the bot is not in the group of FEISHU_RECEIVE_ID",
        "机器人不在 FEISHU_RECEIVE_ID 指定的群里",
    ),
    (
        "the app's bot is switched off: switch it on and publish",
        "应用的机器人已停用：请启用并发布",
    ),
    ("the message was recalled", "消息已被撤回"),
    ("the app is not available to this person", "这个人不在应用的可用范围内"),
    ("the group does not let the bot write", "这个群不允许机器人发言"),
    ("too many messages to one person or group", "发给同一个人或群的消息太多"),
    ("too many unread urgent messages", "未读的加急消息太多"),
    ("no urgent messages are left this month", "本月的加急次数已用完"),
    ("the message is too old to be changed", "消息太旧，不能再修改"),
    ("FEISHU_RECEIVE_ID names nobody", "FEISHU_RECEIVE_ID 没有对应的人"),
    (
        "FEISHU_RECEIVE_ID belongs to another company",
        "FEISHU_RECEIVE_ID 属于另一家企业",
    ),
    ("this person has muted the bot", "这个人屏蔽了机器人"),
    ("the message was deleted", "消息已被删除"),
    ("the group is gone", "群已不存在"),
    ("the file is too large for Feishu", "文件太大，飞书不接受"),
    (
        "the company's monthly calls to Feishu are used up",
        "企业本月的飞书调用额度已用完",
    ),
    ("Feishu wants a token", "飞书要求 token"),
    ("Feishu refused the token", "飞书不接受这个 token"),
    ("the app lacks a permission; add it and publish", "应用缺少权限：请添加并发布"),
    ("the app is not installed: publish a version", "应用没有安装：请发布一个版本"),
    ("the open_id belongs to another app", "这个 open_id 属于另一个应用"),
    ("Feishu refused a field of the message", "飞书不接受消息里的某个字段"),
    ("Feishu gave no token", "飞书没有给出 token"),
    ("not a usable address", "不是可用的地址"),
    ("timed out", "超时"),
    (
        "a proxy by {}:// is not supported, only http://",
        "不支持 {}:// 代理，只支持 http://",
    ),
    ("no address found", "找不到地址"),
    ("the proxy refuses the connection: {}", "代理拒绝连接：{}"),
    (
        "an app was created, but its id or secret is unusable",
        "应用已创建，但拿到的 id 或密钥不可用",
    ),
    ("HTTP status {} and no code", "HTTP 状态 {}，没有返回码"),
    ("Feishu says: {}", "飞书说：{}"),
)

# install and uninstall.
INSTALL = (
    ("would {}", "将要：{~}"),
    ("would start the server", "将要启动服务"),
    ("would restart it", "将要重新启动服务"),
    ("nothing to change", "无需改动"),
    ("note: {}", "注意：{~}"),
    (
        "Feishu refuses this bot; nothing was changed: {}",
        "飞书不接受这个机器人；没有做任何改动：{~}",
    ),
    ("again, with its own: {}", "换成它自己的再试：{}"),
    (
        "the bot is kept all the same; when that is mended: {}",
        "机器人照样保留；修好之后运行：{}",
    ),
    (
        "{} in FEISHUPERM_NOTIFY makes cards of them too",
        "在 FEISHUPERM_NOTIFY 里加上 {}，它们也会发卡片",
    ),
    (
        "FEISHUPERM_SURFACES does not list webhook: the bot gets nothing",
        "FEISHUPERM_SURFACES 里没有 webhook：机器人什么也收不到",
    ),
    (
        "{} has our hook in another form: each request is asked twice where both "
        "count; remove feishuperm-hook from one of them",
        "{} 里有写法不同的同一个钩子：两边都生效时每个请求会问两次；请从其中一处去掉 "
        "feishuperm-hook",
    ),
    ("there is no app yet", "还没有应用"),
    ("the server of before does not start either: {}", "原来的服务也没能启动：{~}"),
    ("the server runs again as before ({})", "服务已照原样恢复运行（{~}）"),
    ("write {}", "写入 {}"),
    ("remove {}", "删除 {}"),
    ("link {}", "建立链接 {}"),
    ("use Python {} ({})", "使用 Python {}（{}）"),
    ("{} is not the file that was installed", "{} 不是当初安装的那个文件"),
    ("install a good one: install.sh", "请重新安装：install.sh"),
    ("{} exists and is not ours", "{} 已存在，而且不是我们的"),
    ("choose another place: --prefix DIR", "换一个位置：--prefix DIR"),
    (
        "{} is a virtual environment's; using its base {}",
        "{} 属于虚拟环境，改用它的基础解释器 {}",
    ),
    (
        "{} is a virtual environment's; it must not be removed",
        "{} 属于虚拟环境，不要删除它",
    ),
    ("register {} in {}", "在 {2} 里注册 {1}"),
    ("set {} to {} in {}", "在 {3} 里把 {1} 设为 {2}"),
    ("set {} in {}", "在 {2} 里设置 {1}"),
    ("ask about {} in {}", "在 {2} 里加入询问规则：{1~}"),
    ("the rules above", "如上"),
    ("remove {} of {} from {}", "从 {3} 里去掉 {2} 的 {1}"),
    ("ask no longer about {} in {}", "在 {2} 里去掉询问规则 {1}"),
    ("mend our entries in {}", "修正 {} 里我们的条目"),
    ("{} is left as it is: {}", "{} 保持原样：{~}"),
    ("mend it by hand: {}", "请手动改好：{}"),
    ("remove the feishuperm hooks by hand", "请手动删除 feishuperm 的钩子"),
    ("removed our hooks from {}", "已从 {} 里移除我们的钩子"),
    ("restored {}", "已还原 {}"),
    ("removed {}", "已删除 {~}"),
    ("removed our settings from {}", "已从 {} 里移除我们的设置"),
    ("the settings", "设置"),
    ("the program", "程序"),
    ("the app {} stays in Feishu: {}/app/{}", "应用 {} 仍在飞书里：{}/app/{}"),
    ("would undo {}: {}", "将要撤销 {}：{~}"),
    ("its files", "它的文件"),
    ("nothing is installed", "没有安装任何东西"),
    ("kept: {} and {} (`rm -r` removes them)", "保留了 {} 和 {}（可用 `rm -r` 删除）"),
    # What Claude Code shall ask about.
    ("push", "推送"),
    ("publish", "发布"),
    ("deploy", "部署"),
    ("production", "生产环境"),
    ("money", "花钱"),
    ("delete outside the project", "删除项目之外的文件"),
    ("credentials", "凭据"),
    # A gateway.
    (
        "a gateway needs FEISHU_APP_ID and FEISHU_APP_SECRET",
        "网关需要 FEISHU_APP_ID 和 FEISHU_APP_SECRET",
    ),
    (
        "install --gateway needs systemd, and `systemctl --user` does not answer "
        "here; nothing was changed",
        "install --gateway 需要 systemd，而 `systemctl --user` 在这里没有回应；没有做"
        "任何改动",
    ),
    (
        "let launchd, a container or another supervisor run feishuperm gateway",
        "请用 launchd、容器或别的进程管理器运行 feishuperm gateway",
    ),
    ("feishuperm {}: the gateway runs", "feishuperm {}：网关正在运行"),
    ("the gateway was started, but does not answer", "网关已启动，但没有回应"),
    ("a gateway needs an app", "网关需要一个应用"),
    ("stopped the gateway", "网关已停止"),
    ("joined {} as {} ({})", "已加入 {}，名为 {}（{}）"),
    (
        "send the six digits to the bot in Feishu, and confirm there",
        "在飞书里把六位数字发给机器人，并在那里确认",
    ),
    ("pairing code {}", "配对码 {}"),
    (
        "{} is no longer this server's: restart it",
        "{} 已不属于正在运行的服务，请重新启动它",
    ),
    ("confirmed by {}", "确认人：{}"),
    ("people who run the gateway can tap for you", "管理网关的人可以替你点按钮"),
    (
        "should its cards offer Always, passes and the next prompt too? [y/N] ",
        "网关的卡片上也提供“始终允许”、通行证和下一条指令吗？[y/N] ",
    ),
    ("is that you? [Y/n] ", "这是你吗？[Y/n] "),
    ("the server has to start anew to use it: {}", "重新启动服务后才会生效：{~}"),
    ("this machine has joined no gateway", "这台机器没有加入任何网关"),
    (
        "left {}; its owner can revoke the machine there as well",
        "已退出 {}；所有者也可以在那里移除这台机器",
    ),
    (
        "{} is not encrypted: whoever is on the way could approve for you",
        "{} 没有加密：途中的人可能替你批准",
    ),
    (
        "use https://, or --allow-http if you know better",
        "请用 https://；确有把握时加 --allow-http",
    ),
    ("not joined: nothing was stored", "没有加入：什么都没有保存"),
    ("the gateway's answer cannot be read", "读不懂网关的回应"),
    ("the gateway says: {}", "网关说：{~}"),
    ("nobody confirmed it in time", "没有人及时确认"),
    ("feishuperm join again", "再运行一次 feishuperm join"),
    ("the gateway closed the connection", "网关关闭了连接"),
    ("the gateway refuses this machine: {}", "网关拒绝这台机器：{~}"),
    ("unknown machine or wrong key", "机器未登记，或密钥不对"),
    ("replaced by a newer connection", "同一密钥有了更新的连接"),
    ("the gateway has revoked this machine", "网关已移除这台机器"),
    ("the gateway's engine does not answer", "网关的引擎没有回应"),
    (
        "the gateway has no connection to Feishu: {}",
        "网关没有连上飞书：{~}",
    ),
    (
        "the gateway's clock is {} s ahead of this machine's",
        "网关的时钟比这台机器快 {} 秒",
    ),
    (
        "the gateway's clock is {} s behind this machine's",
        "网关的时钟比这台机器慢 {} 秒",
    ),
    (
        "this gateway's clock is {} s ahead of its engine's",
        "这个网关的时钟比它的引擎快 {} 秒",
    ),
    (
        "this gateway's clock is {} s behind its engine's",
        "这个网关的时钟比它的引擎慢 {} 秒",
    ),
    ("set the clock of this machine", "校准这台机器的时钟"),
    ("set the clocks of both machines", "校准两台机器的时钟"),
    ("the gateway is down: {}", "网关连不上：{~}"),
    ("connected to {} as {}", "已连接 {}，名为 {}"),
    (
        "{} is no gateway of feishuperm (HTTP {})",
        "{} 不是 feishuperm 的网关（HTTP {}）",
    ),
    ("{} is {} now", "{} 现在叫 {}"),
    ("revoked {}", "已移除 {}"),
    ("no gateway runs here for this user", "当前用户在这里没有运行网关"),
    (
        "no machine has joined yet: feishuperm join ADDRESS",
        "还没有机器加入：feishuperm join ADDRESS",
    ),
    ("connected", "已连接"),
    ("away", "离线"),
    ("{} s", "{} 秒"),
    ("{} waiting", "{} 个在等待"),
    ("the engine does not answer: {}", "引擎没有回应：{~}"),
    ("unknown control command {}", "不认识命令 {}"),
    ("no machine {}", "没有机器 {}"),
    ("no machine {}{}", "没有机器 {}{}"),
    ("the sentinel at {} knows no master {}", "{} 上的 sentinel 不知道主节点 {}"),
    ("the engine at {} is a cluster: not supported", "{} 上的引擎是集群：不支持"),
    (
        "another program holds connections of this Feishu app and takes taps away: "
        "stop it, or let all gateways share FEISHUPERM_ENGINE",
        "另一个程序也连着这个飞书应用，会抢走点按：请停掉它，或让所有网关共用 "
        "FEISHUPERM_ENGINE",
    ),
    (
        "GATEWAY_CERT and GATEWAY_KEY: cannot use {}: {}",
        "GATEWAY_CERT 和 GATEWAY_KEY：无法使用 {}：{~}",
    ),
    ("about to remove: {}", "将要删除：{~}"),
    (
        "The buttons point to {}, which a phone cannot open. It could open:",
        "按钮指向 {}，手机打不开，只有这台电脑可以。手机可用的地址：",
    ),
    (
        "for devices in your tailnet (or your provider's network)",
        "只有你的 Tailscale 网络（或运营商内网）里的设备能连",
    ),
    (
        "for everybody in this network, unencrypted: at home yes, in a cafe no",
        "同一网络里的所有人都能连，且不加密：家里可以，咖啡馆不行",
    ),
    (
        "for everybody on the internet, unencrypted: put an https proxy before it",
        "互联网上的所有人都能连，且不加密：请在前面放一个 https 代理",
    ),
    (
        "no address of this machine is one for a phone; a tunnel's is set by "
        "--callback-url",
        "这台机器没有手机能用的地址；隧道或代理的地址用 --callback-url 设置",
    ),
    (
        "to set one: feishuperm install --callback-url {}",
        "设置：feishuperm install --callback-url {}",
    ),
    ("Choose one [Enter: leave it]: ", "选一个 [回车：保持本机]："),
    ("feishuperm {} is installed{}", "feishuperm {} 已安装{~}"),
    ("feishuperm {} is started again{}", "feishuperm {} 已重新启动{~}"),
    ("feishuperm {} is up to date{}", "feishuperm {} 已是最新，无需改动{~}"),
    (" and running ({}, pid {})", "，正在运行（{~}，pid {}）"),
    ("next:", "接下来："),
    ("see a card on your phone: {} test-card", "在手机上收一张卡片：{} test-card"),
    (
        "connect Feishu by a scan: {} install --setup",
        "扫码接入飞书：{} install --setup",
    ),
    (
        "check every hop from hook to phone: {} doctor",
        "检查从钩子到手机的每一步：{} doctor",
    ),
    ("try it without Claude Code: {} demo", "不用 Claude Code 试一试：{} demo"),
    (
        "make Claude Code ask in auto mode too: {} install --ask-list",
        "让 Claude Code 在自动模式下也询问：{} install --ask-list",
    ),
    (
        "language: English, from your locale (--lang zh changes it)",
        "语言：中文（来自系统的语言环境；--lang en 改为英文）",
    ),
    (
        "A request waits 55 seconds for you and is then refused. It can also\n"
        "wait 10 minutes and then leave the answer to the terminal, where the\n"
        "dialog stays open.",
        "请求默认等你 55 秒，然后自动拒绝。也可以等 10 分钟，然后交回终端：\n"
        "终端的确认框一直都在。",
    ),
    ("Wait 10 minutes? [Y/n] ", "等 10 分钟？[Y/n] "),
    (
        "In auto mode Claude Code asks about little, so few cards come. It can "
        "always\n"
        "ask about these:",
        "自动模式下 Claude Code 很少询问，卡片也就很少。可以让它总是询问这些：",
    ),
    ("Add these rules? [Y/n] ", "加入这些规则？[Y/n] "),
    (
        "Where shall requests go?\n"
        "  1  to you in Feishu, by an app that one scan makes (recommended)\n"
        "  2  to a Feishu app that you have: its id and secret\n"
        "  3  to a Feishu group: the address of its bot\n"
        "  4  to the inbox on this machine, for now",
        "请求发到哪里？\n"
        "  1  飞书里发给你：扫一次码，自动建好应用（推荐）\n"
        "  2  你已有的飞书应用：填 App ID 和 App Secret\n"
        "  3  飞书群：填群机器人的地址\n"
        "  4  先只用这台机器上的收件箱",
    ),
    ("the app {}", "应用 {}"),
    ("5  as it is: {}", "5  保持现状：{~}"),
    ("Choose [{}]: ", "请选择 [{~}]："),
    (
        "Feishu: open the group's settings, add a custom bot, copy its address.",
        "飞书：打开群设置，添加自定义机器人，复制它的地址。",
    ),
    (
        "Webhook address (empty: later, use the inbox): ",
        "Webhook 地址（回车：以后再说，先用收件箱）：",
    ),
    ("Signing secret (empty: none): ", "签名密钥（回车：没有）："),
    (
        "The secret is wrong, the address is right. Secret (empty: another address): ",
        "密钥不对：地址没有问题，请重新输入密钥（回车：重新输入地址）：",
    ),
    ("a test card is in the group", "测试卡片已发到群里"),
    ("Feishu did not take the test card: {}", "飞书没有接受测试卡片：{~}"),
    (
        "Interactive sessions start in auto mode, in which Claude Code asks about "
        "few\n"
        'tool calls, so few cards come. With permissions.defaultMode "default" it '
        "asks.",
        "交互式会话以自动模式启动，Claude Code 很少询问，卡片也就很少。\n"
        '把 permissions.defaultMode 设为 "default" 后，它会询问。',
    ),
    ("Set it now? [y/N] ", "现在设置？[y/N] "),
    (
        "Scan this with Feishu, or open the link. It is for you alone: whoever\n"
        "confirms it first owns the app.\n",
        "用飞书扫码，或打开链接。链接只给你自己用：谁先确认，应用就归谁。\n",
    ),
    ("Lark: open {} in a browser", "Lark：在浏览器里打开 {}"),
    ("the code is in {}", "二维码在 {}"),
    ("(no QR code: it needs {} columns)", "（二维码需要 {} 列，这个终端放不下）"),
    (
        "(the code is {} lines high: make the window taller)",
        "（二维码有 {} 行高：请把窗口拉高）",
    ),
    (
        "waiting for your scan, {} left (Ctrl-C ends, nothing is lost)",
        "等你扫码，还剩 {}（Ctrl-C 结束，什么都不会丢）",
    ),
    ("no answer from {}, trying again, {} left", "{} 没有回应，正在重试，还剩 {}"),
    (
        "stopped; for {} min the same command goes on with this link",
        "已停止；{} 分钟内，同样的命令会接着用这个链接",
    ),
    ("going on with the scan that was not finished", "接着上次没有完成的扫码"),
    ("another scan was not finished: {}", "还有一次扫码没有完成：{~}"),
    (
        "if Feishu said that an app was created, its id and secret are on its page at "
        "{}",
        "如果飞书提示应用已创建，它的 App ID 和 App Secret 在这里的应用页面上：{}",
    ),
    ("the app {} is made, its secret is kept", "应用 {} 已就绪，密钥已保存"),
    (
        "the app {} was created, but its secret could not be kept: {}",
        "应用 {} 已创建，但密钥没能保存：{~}",
    ),
    (
        "{}/{}/baseinfo shows it; then install --setup",
        "密钥在 {}/{}/baseinfo；然后 install --setup",
    ),
    ("no link: {}", "没有拿到链接：{~}"),
    (
        "give the id and secret of an app you have; apps are made at {}",
        "可以填已有应用的 App ID 和 App Secret；在这里创建应用：{}",
    ),
    (
        "the scan was refused on the phone, or your company does not let you create "
        "apps",
        "手机上拒绝了，或者公司不允许你创建应用",
    ),
    ("the link is no longer good", "链接已失效"),
    ("no app came of it: {}", "没有得到应用：{~}"),
    ("App id (cli_..., empty: back): ", "App ID（cli_...，回车：返回）："),
    ("App secret: ", "App Secret："),
    (
        "an app has a secret too: see the page of its credentials",
        "应用还有一个 App Secret，见它的凭证页面",
    ),
    ("Feishu does not take it: {}", "飞书不接受：{~}"),
    (
        "the app {} is no longer used here; it stays in Feishu: {}",
        "应用 {} 不再使用，它还在飞书里：{}",
    ),
    (
        "the app is not used before it has an owner: {} install",
        "还不知道应用归谁，暂不使用：{} install",
    ),
    ("Your open_id, ou_... [{}]: ", "你的 open_id，ou_... [{~}]："),
    ("{}, the app's owner", "{}，应用的所有者"),
    ("later", "以后再说"),
    (
        "a card is on its way to you in Feishu: tap a button (Ctrl-C: later)",
        "一张卡片正发到你的飞书：点任意一个按钮（Ctrl-C：以后再说）",
    ),
    ("later: {} test-card", "以后：{} test-card"),
    (
        "the tap of {} came after {} s: the way to the phone works",
        "{2} 秒后收到 {1} 的点按：通往手机的路是通的",
    ),
    ("no tap came", "没有收到点按"),
    (
        "answered elsewhere ({}): the phone is still to be tried: {} test-card",
        "已在别处回答（{}），手机还没有试过：{} test-card",
    ),
    (
        "a number on the phone? {} doctor NUMBER explains it;\n"
        "else: {} doctor, and again: {} test-card",
        "手机上显示了数字？{} doctor 数字 会解释它；\n"
        "没有的话：先 {} doctor，再 {} test-card",
    ),
)

# doctor.
DOCTOR = (
    ("ok", "正常"),
    ("warn", "警告"),
    ("fail", "失败"),
    ("python", "Python"),
    ("file", "程序文件"),
    ("config", "配置文件"),
    ("settings", "设置"),
    ("state", "状态目录"),
    ("ledger", "决定记录"),
    ("claude settings", "Claude 设置"),
    ("hooks", "钩子"),
    ("hooks enabled", "钩子开关"),
    ("permission mode", "权限模式"),
    ("server", "服务"),
    ("socket", "套接字"),
    ("http", "HTTP"),
    ("loopback", "回环地址"),
    ("feishu", "飞书"),
    ("clock", "时钟"),
    ("loop", "往返"),
    # What mends.
    (
        "mend the file first, see the line `file`",
        "先修好程序文件，见「程序文件」那一行",
    ),
    (
        "cards come through the gateway: no app is needed here",
        "卡片经网关收发：这里不需要应用",
    ),
    ("FEISHUPERM_SURFACES leaves it out", "FEISHUPERM_SURFACES 里没有它"),
    ("the server does not use it yet", "服务还没有用上它"),
    ("ask the people who run the gateway", "请联系管理网关的人"),
    ("edit {}{}", "编辑 {}{~}"),
    ("remove feishuperm-hook", "去掉 feishuperm-hook"),
    ("remove it from {}", "从 {} 里去掉它"),
    (
        "run claude in a terminal if no card comes",
        "收不到卡片时，请在终端里运行 claude",
    ),
    ("check the network", "检查网络"),
    ("open {}", "打开 {}"),
    ("{}, or open {}", "{}，或打开 {}"),
    (
        "end the other server, or give it an app of its own",
        "结束另一个服务，或给它单独的应用",
    ),
    ("change the bot's settings in the Feishu group", "在飞书群里修改机器人的设置"),
    ("in a minute: {} doctor", "一分钟后再试：{} doctor"),
    ("set it right in the environment: {}", "在环境变量里改正：{}"),
    ("set the clock: timedatectl set-ntp true", "校准时钟：timedatectl set-ntp true"),
    (
        "./install.sh in the clone, or: curl https://HOST/install.sh | sh",
        "在克隆的仓库里运行 ./install.sh，或：curl https://HOST/install.sh | sh",
    ),
    (
        "set XDG_STATE_HOME to a folder of your own",
        "把 XDG_STATE_HOME 设为你自己的目录",
    ),
    (
        "set PERMISSION_SOCKET_PATH to a path of your own, not {}",
        "把 PERMISSION_SOCKET_PATH 设为你自己的路径，不要用 {}",
    ),
    ("see all: {}", "查看全部：{~}"),
    ("set FEISHUPERM_ENGINE", "设置 FEISHUPERM_ENGINE"),
    # This program.
    (
        "no Python is pinned; the hook takes the one in PATH",
        "没有固定 Python；钩子用 PATH 里的那个",
    ),
    ("{}, named in {}, does not run", "{}（写在 {} 里）无法运行"),
    ("{} is {}, too old", "{} 是 {}，版本太旧"),
    (
        "not installed; this is a file that runs by itself",
        "没有安装；这是一个直接运行的文件",
    ),
    ("{} is not as it was installed", "{} 与安装时不一样"),
    ("{} does not lead to {}", "{} 没有指向 {}"),
    ("{}, version {}", "{}，版本 {}"),
    ("{} is a folder, not a file", "{} 是目录，不是文件"),
    (
        "no config.env; environment and defaults",
        "没有 config.env；使用环境变量和默认值",
    ),
    ("{} can be read by others", "其他用户可以读取 {}"),
    ("in the environment, {}", "环境变量里，{~}"),
    ("{}, line {}: {} is no setting", "{} 第 {} 行：没有 {} 这个设置"),
    (
        "who can reach {} may answer for you: CALLBACK_LINK_SIGNING is off",
        "能访问 {} 的人都可以替你回答：CALLBACK_LINK_SIGNING 为 off",
    ),
    (
        "whatever opens a link to {} decides: CALLBACK_CONFIRM is off",
        "谁打开 {} 的链接谁就作了决定：CALLBACK_CONFIRM 为 off",
    ),
    (
        "cards come after {} s, but the wait is over after {} s",
        "卡片要 {} 秒后才发，但等待 {} 秒就结束了",
    ),
    ("the settings fit together", "各项设置互相匹配"),
    (
        "FEISHUPERM_SURFACES names {}, which is not set up{}",
        "FEISHUPERM_SURFACES 里的 {} 还没有配置{~}",
    ),
    ("; nothing can show a request", "；没有地方能显示请求"),
    ("{}, not there yet", "{}，还不存在"),
    ("{} belongs to user {}", "{} 属于用户 {}"),
    ("others can write to {}", "其他用户可以写入 {}"),
    ("{}, this user's alone to write to", "{}，只有本人可写"),
    ("{}, this user's alone", "{}，只属于本人"),
    ("{}, and {} more", "{~}，另有 {} 处"),
    ("{}, {} entries, is whole", "{}，{} 条，完整"),
    ("{}, {} entries, is whole at its end", "{}，{} 条，末尾部分完整"),
    # Claude Code.
    ("asks about every call that no rule allows", "凡是没有规则放行的调用都会询问"),
    (
        "asks about commands, not about edits in the project",
        "会询问命令，不询问项目内的编辑",
    ),
    (
        "asks when a plan is ready, and about what reading needs",
        "计划写好时询问，读取需要时也会询问",
    ),
    (
        "asks questions, and after three calls in a row that it refused itself",
        "会提问；连续三个调用被它自己拒绝后才询问",
    ),
    (
        "asks nothing, and refuses what no rule allows",
        "什么都不问，没有规则放行的一律拒绝",
    ),
    ("asks nothing, and lets everything run", "什么都不问，全部放行"),
    (
        "{}: {}; Claude Code ignores the whole file",
        "{}：{~}；Claude Code 会忽略整个文件",
    ),
    (
        "{}; also what permissions.ask names ({})",
        "{~}；另外还有 permissions.ask 里的规则（{} 条）",
    ),
    ("none yet", "还没有"),
    (
        "no PermissionRequest hook of ours in Claude Code",
        "Claude Code 里没有我们的 PermissionRequest 钩子",
    ),
    ("{} has our hook more than once", "{} 里我们的钩子不止一个"),
    (
        "{} has our hook too: each request asks twice",
        "{} 里也有我们的钩子：每个请求会问两次",
    ),
    ("{} names {}, which cannot run", "{} 里的 {} 无法运行"),
    (
        "{}: its timeout is not {} s above the wait of {} s",
        "{1}：超时没有比 {3} 秒的等待多出 {2} 秒",
    ),
    (
        "{}: its timeout of {} s ends a request that somebody reads: it is not {} s "
        "above the wait of {} s and the hold of {} s",
        "{1}：{2} 秒的超时会打断有人正在看的请求：应比 {4} 秒的等待加 {5} 秒的暂停再多"
        " {3} 秒",
    ),
    ("{}: only asked for {}", "{}：只对 {} 询问"),
    ("{}, timeout {} s", "{}，超时 {} 秒"),
    ("{} sets disableAllHooks", "{} 设置了 disableAllHooks"),
    ("hooks are not disabled", "钩子没有被禁用"),
    (
        "some versions of the VS Code extension run no PermissionRequest hooks",
        "VS Code 扩展的某些版本不运行 PermissionRequest 钩子",
    ),
    # The server.
    ("none runs here, and none is needed", "这里没有网关，也不需要"),
    ("{} machines connected", "{} 台机器已连接"),
    ("{}, though process {} lives", "{~}，但进程 {} 还在"),
    ("it runs version {}, the file is {}", "运行的是版本 {}，文件是 {}"),
    ("it started before the file was replaced", "它启动之后文件被替换过"),
    ("version {}, pid {}", "版本 {}，pid {}"),
    ("not checked: no server", "未检查：没有服务"),
    ("{} is what a server that is gone has left", "{} 是已经结束的服务留下的"),
    ("{} is open to others", "{} 对其他用户开放"),
    (
        "{} (CALLBACK_SERVER_URL) cannot be reached: {}",
        "{}（CALLBACK_SERVER_URL）连不上：{~}",
    ),
    (
        "another program answers at {} (CALLBACK_SERVER_URL): {}",
        "在 {}（CALLBACK_SERVER_URL）回应的是另一个程序：{}",
    ),
    ("{} answers", "{} 有回应"),
    (
        "a phone cannot open {}; it works here only",
        "手机打不开 {}，它只在这台机器上有效",
    ),
    ("the server does not answer on {}: {}", "服务在 {} 上没有回应：{~}"),
    ("another program answers on {}", "在 {} 上回应的是另一个程序"),
    ("not for this address", "这个地址不需要"),
    ("hook, server, decision and back", "钩子、服务、决定，再回到钩子"),
    ("the hook printed {}", "钩子输出了 {}"),
    ("the hook brought no answer of the server's back", "钩子没有带回服务的回应"),
    # Feishu.
    (
        "neither an app nor a group bot: only the inbox shows requests",
        "没有应用也没有群机器人：只有收件箱显示请求",
    ),
    ("the group bot took a test card", "群机器人收下了测试卡片"),
    ("the group bot did not: {}", "群机器人没有收下测试卡片：{~}"),
    ("not compared: no answer of Feishu's", "未比较：没有飞书的回应"),
    ("not compared: Feishu sent no readable date", "未比较：飞书没有返回可读的时间"),
    ("{} s from Feishu's", "与飞书相差 {} 秒"),
    (
        "FEISHU_APP_ID is set without FEISHU_APP_SECRET",
        "设置了 FEISHU_APP_ID，没有设置 FEISHU_APP_SECRET",
    ),
    ("the app cannot be used: {}", "应用无法使用：{~}"),
    ("id and secret of the app fit", "应用的 id 和密钥匹配"),
    ("the app's bot does not answer: {}", "应用的机器人没有回应：{~}"),
    ("the app's bot is ready", "应用的机器人已就绪"),
    (
        "the app's bot {} (status {}): publish a version",
        "应用的机器人{~}（状态 {}）：请发布一个版本",
    ),
    ("is not in use yet", "还没有启用"),
    ("was switched off by the company", "已被企业停用"),
    ("waits to be switched on by the company", "等待企业启用"),
    ("waits for an upgrade to be switched on", "等待升级后启用"),
    ("has expired", "已过期"),
    ("is in an unknown state", "状态未知"),
    ("the app is switched off", "应用已停用"),
    (
        "a version of the app waits for the company's administrator",
        "应用有一个版本在等企业管理员审核",
    ),
    ("unknown {}: {}", "不知道{~}：{~}"),
    ("what the app may do", "应用有哪些权限"),
    ("what is published", "发布了什么"),
    ("whether taps reach the app", "点按能否送到应用"),
    ("Feishu does not say", "飞书没有说明"),
    ("the app may not: {}", "应用缺少权限：{}"),
    ("the app may do all that is needed", "应用有全部所需的权限"),
    (
        "taps go to a web address instead of the long connection",
        "点按被送到一个网址，而不是长连接",
    ),
    ("taps do not reach the app: {} is not subscribed", "点按送不到应用：没有订阅 {}"),
    ("taps reach the app over its long connection", "点按经长连接送到应用"),
    ("no version of the app is published", "应用没有发布任何版本"),
    ("version {} of the app is published", "应用已发布版本 {}"),
    ("texts do not reach the app: {} is not subscribed", "文字送不到应用：没有订阅 {}"),
    ("unknown how many connections the app has", "不知道应用有几个连接"),
    (
        "the app has {} connections: each tap reaches only one of them",
        "应用有 {} 个连接：每次点按只会送到其中一个",
    ),
    (
        "the server says it is connected, and Feishu sees no connection",
        "服务说已连接，飞书却没有看到连接",
    ),
    ("connections of the app: {}", "应用的连接数：{}"),
    # test-card and demo.
    (
        "the server has no Feishu group bot, no app and no gateway",
        "服务没有接入飞书群机器人、应用或网关",
    ),
    (
        "feishuperm install --setup, or feishuperm demo",
        "feishuperm install --setup，或 feishuperm demo",
    ),
    ("{} is down: {}", "{~}断开了：{~}"),
    ("the app", "应用"),
    ("the group bot", "群机器人"),
    ("the gateway", "网关"),
    (
        "a card is on its way; tap a button within {} seconds",
        "卡片正在路上；请在 {} 秒内点一个按钮",
    ),
    ("no card? the inbox shows it too: {}", "没收到卡片？收件箱里也有：{}"),
    ("nobody tapped within {} seconds", "{} 秒内没有人点按"),
    ("nobody saw the card", "没有人看到卡片"),
    ("inbox: {}", "收件箱：{}"),
    ("a command", "一条命令"),
    ("an edit", "一次编辑"),
    ("a question", "一个提问"),
    ("a plan", "一份计划"),
    ("asked: {} ({})", "已询问：{~}（{}）"),
    (
        "answer them in the inbox; Ctrl-C ends the demo",
        "请在收件箱里回答；Ctrl-C 结束演示",
    ),
    ("nothing: the terminal would decide", "没有输出：由终端决定"),
    ("the demo's server did not start: {}", "演示的服务没有启动：{~}"),
    ("it said nothing", "它什么也没说"),
    ("the demo's hook for {} did not ask", "演示的钩子没有发出请求：{~}"),
    ("the page of {} has no {} ({})", "{} 的页面上没有 {}（{}）"),
    ("{} answered with status {}", "{} 返回状态 {}"),
    ("the inbox does not show {}", "收件箱里没有 {}"),
    (
        "that was all: what the hooks printed is what Claude Code would read. Next: "
        "feishuperm install",
        "演示结束：钩子打印的就是 Claude Code 会读到的决定。下一步：feishuperm install",
    ),
    (
        "your tap came after {} s ({}): the way to the phone works",
        "{} 秒后收到你的点击（{~}）：到手机的路是通的",
    ),
    (
        "Feishu has nowhere to bring the tap: the app's callback card.action.trigger "
        "is not subscribed, not set to the long connection or not published; or no "
        "server holds the app's connection",
        "飞书不知道把点按送到哪里：应用没有订阅回调 card.action.trigger、没有设为长连"
        "接或没有发布，或者没有服务持有应用的长连接",
    ),
    (
        "feishuperm doctor names which, feishuperm install --rescan subscribes it",
        "feishuperm doctor 会指出是哪一种，feishuperm install --rescan 重新订阅",
    ),
    (
        "the server did not answer the tap within 3 seconds: it was busy, restarting, "
        "or its connection was half dead",
        "服务没有在 3 秒内回应点按：它在忙、在重启，或者连接已半断",
    ),
    (
        "feishuperm status, then tap again: nothing is decided twice",
        "feishuperm status，然后再点一次：不会重复决定",
    ),
    (
        "the app's callback is set to a web address, and nobody answers there",
        "应用的回调设成了一个网址，而那里没有回应",
    ),
    (
        "set it to the long connection: feishuperm doctor names the page",
        "改成长连接：feishuperm doctor 会给出页面",
    ),
    (
        "whoever got the tap answered it wrongly: often a second program on the same "
        "app",
        "收到点按的程序回答得不对：常常是另一个程序也连着同一个应用",
    ),
    (
        "feishuperm doctor counts the app's connections",
        "feishuperm doctor 会数出应用的连接",
    ),
    (
        "the tap was taken, but Feishu could not draw the new card",
        "点按已收到，但飞书没能画出新的卡片",
    ),
    (
        "look into the inbox for what was decided: feishuperm status",
        "决定了什么，看收件箱：feishuperm status",
    ),
    ("Feishu could not draw the card", "飞书没能画出卡片"),
    (
        "tap again; if it stays: feishuperm doctor",
        "再点一次；还是这样的话：feishuperm doctor",
    ),
    ("Feishu failed by itself", "飞书自己出错了"),
    ("tap again in a minute", "一分钟后再点一次"),
    ("feishuperm doctor names the page", "feishuperm doctor 会给出页面"),
)

# The record, rules, passes, trust.
RECORD = (
    ("TIME", "时间"),
    ("TOOL", "工具"),
    ("DECISION", "决定"),
    ("BY", "来自"),
    ("DETAIL", "详情"),
    ("WHAT", "内容"),
    ("allow", "批准"),
    ("refused", "已拦下"),
    ("always", "始终允许"),
    ("edit", "修改后批准"),
    ("minutes", "10 分钟内允许"),
    ("session", "本会话允许"),
    ("deny", "拒绝"),
    ("interrupt", "拒绝并中断"),
    ("answer", "回答"),
    ("approve", "批准计划"),
    ("send", "发送"),
    ("allowed", "已批准"),
    ("denied", "已拒绝"),
    ("answered", "已回答"),
    ("expired", "超时"),
    ("terminal", "终端"),
    ("gone", "会话已结束"),
    ("released", "交回终端"),
    ("undo", "收回规则"),
    ("pass", "通行证"),
    ("trust", "信任"),
    ("card", "卡片"),
    ("link", "链接"),
    ("message", "消息"),
    ("command", "命令行"),
    ("supervisor", "监督者"),
    ("(undone)", "（已收回）"),
    ("{} entries wait in the server for being written", "{} 条还在服务里等待写入"),
    (
        "no entry has the head {}: this is another ledger",
        "没有哪一条的校验值是 {}：这是另一份记录",
    ),
    ("the head {} is there; {} entries came after", "找到了校验值 {}，之后又有 {} 条"),
    ("{} entries, nothing was changed", "{} 条，没有被改动"),
    (
        "{} entries, none was changed, but some are not there",
        "{} 条，没有被改动，但有缺失",
    ),
    (
        "{}: a session that runs keeps this until it ends",
        "{}：运行中的会话在结束之前仍保留它",
    ),
    ("removed: {}", "已收回：{}"),
    ("not there any more: {}", "已经不在了：{}"),
    ("no request {} in the ledger", "决定记录里没有请求 {}"),
    ("request {} wrote no rule", "请求 {} 没有写过规则"),
    ("removed the rules, but cannot write {}: {}", "规则已收回，但无法写入 {}：{~}"),
    ("{} entries wait for being written", "{} 条等待写入"),
    ("entries cannot be written now: {}", "现在无法写入：{~}"),
    ("another process holds the lock", "另一个进程持有锁"),
    ("another program keeps replacing it", "另一个程序不断在替换它"),
    ("line {}", "第 {} 行"),
    ("lines {} to {}", "第 {} 到 {} 行"),
    ("line {}: written without the key", "第 {} 行：没有用密钥写入"),
    ("line {}: does not follow from {}", "第 {} 行：与{~}接不上"),
    (
        "line {}: entries {} to {} are missing before it",
        "第 {} 行：之前缺少第 {} 到 {} 条",
    ),
    (
        "line {}: request {}: the server ended while it decided ({}); the decision "
        "may have reached the session",
        "第 {} 行：请求 {}：服务在作决定（{~}）时结束了；决定可能已送到会话",
    ),
    (
        "line {}: {} entries before it could not be written, and were too many to keep",
        "第 {} 行：之前有 {} 条无法写入，也多得存不下",
    ),
    ("line {}: cut off by a crash", "第 {} 行：因崩溃而截断"),
    ("line {}: not a ledger entry", "第 {} 行：不是决定记录的条目"),
    (
        "{}: changed, or not written with this key",
        "{~}：被改动过，或不是用这个密钥写的",
    ),
    ("{}: the key to check it with is missing", "{~}：缺少校验用的密钥"),
    (
        "line {}: cut off, the last write did not finish",
        "第 {} 行：被截断，最后一次写入没有完成",
    ),
    (
        "line {}: request {} was being decided ({}) and its end is not written",
        "第 {} 行：请求 {} 正在决定（{~}），结果没有写下",
    ),
    (
        "the last {} entries are newer than the head: a writer was stopped, or is "
        "about to write it",
        "最后 {} 条比校验值新：写入者被中止，或马上就要写",
    ),
    (
        "the head was not written for the last {} entries: whether any were cut off "
        "after them cannot be told",
        "最后 {} 条之后没有写过校验值：无法判断后面是否被截掉",
    ),
    ("the start", "开头"),
    ("... and more", "……还有更多"),
    (
        "when it was written, the ledger had lost its end: entry {} ({})",
        "写入它时，记录已经丢了末尾：第 {} 条（{}）",
    ),
    ("when it was written, the head was {}", "写入它时，校验值是 {~}"),
    (
        "the head is {}: whether entries were cut off cannot be told",
        "校验值{~}：无法判断是否有条目被截掉",
    ),
    ("of another key", "属于另一个密钥"),
    ("entries {} to {} were cut off the end", "末尾的第 {} 到 {} 条被截掉了"),
    (
        "the head is that of entry {} ({}), put back by hand",
        "校验值是第 {} 条的（{}），被人放了回去",
    ),
    ("there are no passes", "没有通行证"),
    ("there is no pass {}", "没有通行证 {}"),
    ("revoked: {}", "已收回：{}"),
    ("in {}, until {} ({} min){}", "在 {~}，到 {} 为止（还剩 {} 分钟）{~}"),
    (", {} calls left", "，还剩 {} 次"),
    ("session {}", "会话 {}"),
    ("without asking:", "不再询问："),
    ("in {}, for {} minutes", "在 {~}，{} 分钟内有效"),
    ("in {}, for {} minutes and {} calls", "在 {~}，{} 分钟内有效，最多 {} 次"),
    ("make this pass? [y/N] ", "创建这个通行证？[y/N] "),
    ("not made", "没有创建"),
    ("there are {} passes already", "已经有 {} 个通行证"),
    ("it cannot be recorded: {}", "无法写入决定记录：{~}"),
    ("{} is no exact rule", "{} 不是精确的规则"),
    (
        "as Bash(npm test), Edit(//abs/path), Read(//abs/path), "
        "WebFetch(domain:host): a whole tool has no pass",
        "写法如 Bash(npm test)、Edit(//abs/path)、Read(//abs/path)、"
        "WebFetch(domain:host)：不能放行整个工具",
    ),
    ("{} is not exact", "{} 不精确"),
    ("a pass has no wildcards", "通行证不能有通配符"),
    (
        "the rule holds a secret, which a pass would keep",
        "规则里有敏感内容，通行证会把它存下来",
    ),
    (
        "nothing to trust: {} has no settings and no scripts",
        "不需要信任：{} 里没有设置，也没有脚本",
    ),
    ("no folder is trusted here", "还没有信任任何目录"),
    ("revoked", "已收回"),
    ("{} was not trusted", "{} 本来就没有被信任"),
    ("trusted", "已信任"),
    ("not trusted", "没有信任"),
    ("changed since", "已有改动"),
    ("there is no folder {}", "没有 {} 这个目录"),
    (
        "Claude Code itself trusts {}: nothing to do",
        "Claude Code 自己信任 {}：不需要做什么",
    ),
    ("{} is trusted as it is", "{} 的现有内容已被信任"),
    ("trust exactly this? [y/N] ", "只信任以上内容？[y/N] "),
    ("it has changed meanwhile, and is not trusted", "内容在此期间有改动，没有信任"),
    ("{}: what would run", "{}：会运行的内容"),
    ("--- end", "--- 结束"),
    (
        "Claude Code's own hooks, permissions, environment and MCP servers are in\n"
        "these files too. What they call in turn is not shown, and not checked.",
        "这些文件里也有 Claude Code 自己的钩子、权限、环境变量和 MCP 服务器。\n"
        "它们再调用的东西没有列出，也没有检查。",
    ),
    ("the ledger cannot be written: {}", "无法写入决定记录：{~}"),
    (
        "inside a session of Claude Code nobody can be asked",
        "在 Claude Code 的会话里没有人可以回答",
    ),
    ("run it in a terminal of your own", "请在你自己的终端里运行"),
    ("a person has to answer: this needs a terminal", "需要人来回答：请在终端里运行"),
    ("({} bytes that are no text)", "（{} 字节，不是文本）"),
    ("{}: over {} files in its folders for scripts", "{}：脚本目录里的文件超过 {} 个"),
    ("{}: `hookScriptPaths` names all of it", "{}：`hookScriptPaths` 包含了整个项目"),
    ("nothing has been decided yet", "还没有任何记录"),
    (
        'rules that "always allow" wrote are still in projects ({}), and log undo '
        "cannot take them back any more:",
        "「始终允许」在项目里写下的 {} 条规则仍然有效，之后无法用 log undo 撤回：",
    ),
    ("take them back first? [Y/n] ", "现在先撤回它们吗？[Y/n] "),
)

# run and the supervisor.
RUN = (
    ("hook: {}", "钩子：{}"),
    ("hook blocked: {}", "被钩子阻止：{}"),
    ("waiting for approval: {}", "等待批准：{}"),
    ("waiting for approval: {}: {} s", "等待批准：{}：{} 秒"),
    ("(and {} more)", "（另有 {} 个）"),
    ("allowed: {}", "已批准：{}"),
    ("refused: {}: {}", "已拒绝：{}：{}"),
    ("stopping", "正在停止"),
    ("answered elsewhere", "已在别处回答"),
    (
        "no server is running, every request is refused",
        "没有服务在运行，所有请求都会被拒绝",
    ),
    ("done in {} s", "完成，用时 {} 秒"),
    ("failed in {} s", "失败，用时 {} 秒"),
    ("{} turns", "{} 轮"),
    ("{} refused", "{} 个被拒绝"),
    ("cannot keep a file for this run: {}", "无法为这次运行保存文件：{~}"),
    (
        "nobody has trusted {}: its settings, callbacks, MCP servers and CLAUDE.md "
        "are left out; look at them with `{}`",
        "没有人信任过 {}：它的设置、回调、MCP 服务器和 CLAUDE.md 都不会使用；用 `{}` "
        "查看",
    ),
    ("there is no `claude` on your PATH", "PATH 里没有 `claude`"),
    ("cannot start {}: {}", "无法启动 {}：{~}"),
    (
        "install Claude Code, or put `claude` on your PATH",
        "请安装 Claude Code，或把 `claude` 放进 PATH",
    ),
    ("a message was not understood ({}: {})", "有一条消息看不懂（{}：{}）"),
    ("the CLI refused a request: {}", "CLI 拒绝了一个请求：{}"),
    (
        "Claude ended without a result (exit {})",
        "Claude 没有给出结果就结束了（退出码 {}）",
    ),
    # What is wrong with somebody's own hooks.
    (
        "Claude Code skips this whole file, because a `script` stands under `hooks`; "
        "its hooks run here, its permissions do not hold: move it to "
        "`feishuperm.callbacks`",
        "`hooks` 下有 `script`，Claude Code 会跳过整个文件；它的钩子在这里会运行，它的"
        "权限规则不生效：请移到 `feishuperm.callbacks`",
    ),
    (
        "{}: Claude Code skips this whole file in interactive sessions, because a "
        "`script` stands under `hooks`; move it to `feishuperm.callbacks`",
        "{}：`hooks` 下有 `script`，Claude Code 在交互会话里会跳过整个文件；请移到 "
        "`feishuperm.callbacks`",
    ),
    (
        "{}: {}: interactive sessions send PermissionRequest straight to the phone, "
        "so this runs under `feishuperm run` only; use PreToolUse",
        "{}：{}：交互会话的 PermissionRequest 直接送到手机，所以它只在 `feishuperm "
        "run` 下运行；请用 PreToolUse",
    ),
    (
        "{}: its callbacks are skipped, because nobody has trusted {}; look at them "
        "with `{}`",
        "{}：它的回调不会运行，因为没有人信任过 {}；用 `{}` 查看",
    ),
    ("{}; the file is ignored", "{~}；忽略这个文件"),
    ("{}: not a JSON object; the file is ignored", "{}: 不是 JSON 对象；忽略这个文件"),
    (
        "{}: hookScriptPaths: not a list of folders; skipped",
        "{}：hookScriptPaths：不是目录列表；跳过",
    ),
    (
        "{} is not read any more: move its content under `hooks` in {} and delete it",
        "不再读取 {}：请把内容移到 {} 的 `hooks` 下，然后删除它",
    ),
    ("{}: {}: {}; skipped", "{}：{}：{~}；跳过"),
    ("{}: hooks.{}: {}", "{}：hooks.{}：{~}"),
    (
        "the specification marks it as TypeScript-only; today's Python SDK runs it too",
        "规范里标明只用于 TypeScript；如今的 Python SDK 也会运行",
    ),
    (
        "TypeScript-only: the Python SDK takes a callback for it, never calls it",
        "只用于 TypeScript：Python SDK 接受它的回调，但从不调用",
    ),
    ("matcher {} is no regular expression ({})", "matcher {} 不是正则表达式（{}）"),
    ("not a list", "不是列表"),
    ("not an object", "不是对象"),
    ("`event` is missing", "缺少 `event`"),
    (
        "only Claude Code runs {}, under `hooks`",
        "{} 只由 Claude Code 运行，要写在 `hooks` 下",
    ),
    ("a project does not decide permission requests", "项目不能决定权限请求"),
    ("`hooks` is not a list", "`hooks` 不是列表"),
    (
        "only Claude Code runs it, and not for an SDK",
        "只由 Claude Code 运行，SDK 不运行",
    ),
    ("{}: {}; it blocks", "{}：{~}；它会阻止"),
    ("{}: {}: no event {} is known; kept", "{}：{}：不认识事件 {}；保留"),
    (
        "{}: hooks.{}: no such event is known; kept",
        "{}：hooks.{}：不认识这个事件；保留",
    ),
    ("`type` {} is none of {}", "`type` {} 不是 {} 之一"),
    ("`{}` is missing, or no usable text", "缺少 `{}`，或不是可用的文本"),
    ("only Claude Code itself knows `{}`", "`{}` 只有 Claude Code 自己认识"),
    (
        "`onFailure` is neither block nor continue",
        "`onFailure` 既不是 block 也不是 continue",
    ),
    ("`timeout` is not a number of seconds up to {}", "`timeout` 不是不超过 {} 的秒数"),
    ("`matcher` is no text", "`matcher` 不是文本"),
    # supervisor
    ("not inside a Claude Code session", "不在 Claude Code 的会话里"),
    ("name it: --session ID", "请指明：--session ID"),
    (
        "a session id is 1 to 128 letters, digits, dots and dashes",
        "会话 id 是 1 到 128 个字母、数字、点和短横线",
    ),
    ("supervisor {} for session {}", "会话 {2} 的监督者：{1~}"),
    ("supervisor {} for {}", "{2} 的监督者：{1~}"),
    ("on", "开启"),
    ("off", "关闭"),
    (
        "but not registered: feishuperm install --supervisor",
        "但还没有注册：feishuperm install --supervisor",
    ),
    ("reviewer: {} ({})", "审查者：{}（{~}）"),
    ("not found: every review will be skipped", "没有找到：所有审查都会跳过"),
    ("limit: {} reviews per prompt; {}", "上限：每次提示 {} 次审查；{~}"),
    ("Claude Code sets none ({})", "Claude Code 没有设上限（{~}）"),
    (
        "Claude Code takes {} blocked stops in a row ({})",
        "Claude Code 最多接受连续 {} 次拦截（{~}）",
    ),
    (
        "but Claude Code takes only {} blocked stops in a row ({}); raise {} in "
        "settings.json: feishuperm install --supervisor",
        "但 Claude Code 最多只接受连续 {} 次拦截（{~}）；请在 settings.json 里调高 "
        "{}：feishuperm install --supervisor",
    ),
    ("its environment", "来自环境变量"),
    ("its default", "默认值"),
    (
        "session {}: {} of {} reviews, {} s in all{}",
        "会话 {}：已审查 {} 次，上限 {} 次，共 {} 秒{~}",
    ),
    (", switched {}", "，已{~}"),
)

# What the system and Python say, as far as it is common; nothing of ours says it.
SYSTEM = (
    ("[Errno {}] {}", "[Errno {}] {~}"),
    ("No such file or directory", "没有这个文件或目录"),
    ("Permission denied", "没有权限"),
    ("Operation not permitted", "不允许这个操作"),
    ("File exists", "文件已存在"),
    ("Not a directory", "不是目录"),
    ("Is a directory", "是一个目录"),
    ("Directory not empty", "目录不是空的"),
    ("No space left on device", "磁盘已满"),
    ("Read-only file system", "文件系统只读"),
    ("Input/output error", "读写出错"),
    ("File name too long", "文件名太长"),
    ("Too many open files", "打开的文件太多"),
    ("Too many levels of symbolic links", "符号链接层数太多"),
    ("Connection refused", "连接被拒绝"),
    ("Connection reset by peer", "连接被对方重置"),
    ("Connection timed out", "连接超时"),
    ("Network is unreachable", "网络不可达"),
    ("No route to host", "到不了这台主机"),
    ("Address already in use", "地址已被占用"),
    ("Cannot assign requested address", "无法使用这个地址"),
    ("Expecting value", "缺少值"),
    ("Expecting property name enclosed in double quotes", "应为用双引号括起来的键"),
    ("Expecting ',' delimiter", "缺少逗号"),
    ("Expecting ':' delimiter", "缺少冒号"),
    ("Extra data", "后面有多余的内容"),
)

ROWS = (
    *HELP, *MISTAKES, *SERVER, *FEISHU, *INSTALL, *DOCTOR, *RECORD, *RUN, *SYSTEM,
)  # fmt: skip
