"""Every sentence a person can read in a card, a page or a hook message.

One row per sentence: key, Chinese, English.  `{name}` is filled in by `text()`.  What
the command line says is elsewhere: English where it is made, Chinese in `lib.chinese`.
"""

from __future__ import annotations

import time

from feishuperm.models.ask import Ask
from feishuperm.models.names import LANGUAGES

TEXTS: dict[str, tuple[str, str]] = {
    # What the model is told.
    "message.deny": ("用户通过飞书拒绝", "Denied by the user in Feishu"),
    "message.deny_reason": (
        "用户通过飞书拒绝：{reason}",
        "Denied by the user in Feishu: {reason}",
    ),
    "message.interrupt": (
        "用户通过飞书拒绝并中断",
        "Denied and interrupted by the user in Feishu",
    ),
    "message.deny_inbox": ("用户在收件箱拒绝", "Denied by the user in the inbox"),
    "message.deny_reason_inbox": (
        "用户在收件箱拒绝：{reason}",
        "Denied by the user in the inbox: {reason}",
    ),
    "message.interrupt_inbox": (
        "用户在收件箱拒绝并中断",
        "Denied and interrupted by the user in the inbox",
    ),
    "message.once": (
        "用户已放行这一次调用",
        "The user lets this call through, once",
    ),
    "message.expired": (
        "权限请求超时，自动拒绝",
        "Permission request timed out, denied automatically",
    ),
    # What the supervisor says, to the model and to the person at the terminal.
    "supervisor.no_feedback": (
        "监督审查认为任务尚未完成，请继续。",
        "The supervisor finds the task unfinished: please go on.",
    ),
    "supervisor.last": (
        "（第 {count} 次审查，上限 {limit} 次：这是最后一次，之后直接放行。）",
        "(Review {count} of {limit}: this is the last one; what follows is allowed "
        "without a review.)",
    ),
    "supervisor.last_block": (
        "（连续第 {cap} 次拦截：Claude Code 不接受再多的连续拦截，下一次直接放行。）",
        "(Block {cap} in a row: Claude Code takes no more of them, so the next stop is "
        "allowed.)",
    ),
    "supervisor.limit": (
        "监督审查已达上限 {limit} 次，本次未审查，直接放行。",
        "The supervisor has done its {limit} reviews: allowed without a review.",
    ),
    "supervisor.capped": (
        "已连续拦截 {cap} 次，这是 Claude Code 的上限"
        "（CLAUDE_CODE_STOP_HOOK_BLOCK_CAP），本次未审查，直接放行。",
        "{cap} stops in a row were blocked, which is Claude Code's own limit "
        "(CLAUDE_CODE_STOP_HOOK_BLOCK_CAP): allowed without a review.",
    ),
    "supervisor.missing": (
        "监督审查无法启动，直接放行。",
        "The supervisor could not be started: allowed without a review.",
    ),
    "supervisor.failed": (
        "监督审查出错，直接放行。",
        "The supervisor failed: allowed without a review.",
    ),
    "supervisor.slow": (
        "监督审查超时，直接放行。",
        "The supervisor did not finish in time: allowed without a review.",
    ),
    "supervisor.silent": (
        "监督审查没有回答，直接放行。",
        "The supervisor said nothing: allowed without a review.",
    ),
    "supervisor.garbled": (
        "监督审查的回答无法识别，直接放行。",
        "The supervisor's answer could not be read: allowed without a review.",
    ),
    # Buttons.
    "button.allow": ("批准运行", "Allow"),
    "button.always": ("始终允许", "Always allow"),
    "button.deny": ("拒绝运行", "Deny"),
    "button.interrupt": ("拒绝并中断", "Deny and interrupt"),
    "button.edit": ("修改后批准", "Edit and allow"),
    "button.minutes": ("10 分钟内允许", "Allow for 10 minutes"),
    "button.session": ("本会话允许", "Allow in this session"),
    "button.approve": ("批准计划", "Approve plan"),
    "button.reject": ("退回计划", "Send the plan back"),
    "button.once": ("放行一次", "Let it run once"),
    "button.stand": ("不放行", "Leave it refused"),
    "button.send": ("发送", "Send"),
    "button.end": ("结束", "End here"),
    "button.submit": ("提交", "Submit"),
    "button.refuse": ("拒绝", "Decline"),
    "button.more": ("查看完整请求", "See the whole request"),
    "button.view": ("查看", "View"),
    "button.inbox": ("收件箱", "Inbox"),
    "button.hold": ("我在看", "Hold"),
    "button.answer": ("回答问题", "Answer"),
    "button.decline": ("不回答", "Rather not answer"),
    # What a button did.
    "done.allow": ("已批准运行", "Allowed"),
    "done.always": ("已始终允许", "Always allowed"),
    "done.edit": ("已修改后批准", "Edited and allowed"),
    "done.minutes": ("已在 10 分钟内允许", "Allowed for 10 minutes"),
    "done.session": ("已在本会话允许", "Allowed in this session"),
    "done.deny": ("已拒绝运行", "Denied"),
    "done.interrupt": ("已拒绝并中断", "Denied and interrupted"),
    # Cards.
    "card.absent": (
        "飞书拒绝显示请求详情，请打开完整请求或在终端查看",
        "Feishu refused to show the details: open the full request or see the terminal",
    ),
    "card.agent": ("子代理", "Agent"),
    "card.branch": ("分支", "Branch"),
    "card.cut": (
        "…（此处省略 {count} 个字符）…",
        "… ({count} characters left out here) …",
    ),
    "card.cut_note": (
        "⚠ 内容过长，卡片只保留首尾，请查看完整请求后再决定",
        "⚠ Too long for a card, only both ends are shown: see the full request first",
    ),
    "card.empty": ("（空）", "(empty)"),
    "card.hidden": ("⚠ 另有 {count} 项未显示", "⚠ {count} more items are not shown"),
    "card.hint": ("请在 {seconds} 秒内操作", "Please answer within {seconds} seconds"),
    "card.hint_terminal": ("请在终端操作", "Please answer in the terminal"),
    "card.masked": (
        "⚠ 敏感内容已用 *** 遮盖，完整内容见请求页面",
        "⚠ Secrets are masked as ***: the full request shows them",
    ),
    "card.pair": ("{label}：{value}", "{label}: {value}"),
    "card.project": ("项目", "Project"),
    "card.request": ("请求", "Request"),
    "card.rule": ("始终允许将写入规则", "Always allow would write this rule"),
    "card.session": ("会话", "Session"),
    "card.time": ("时间", "Time"),
    "card.title": ("Claude Code 权限请求", "Claude Code permission request"),
    "card.title_question": ("Claude Code 提问", "Claude Code asks"),
    "card.title_plan": ("Claude Code 计划", "Claude Code plan"),
    "kind.question": ("提问", "Question"),
    "kind.plan": ("计划", "Plan"),
    "card.title_denied": ("自动模式拒绝了", "Auto mode has refused"),
    "card.title_form": ("Claude Code 表单", "Claude Code form"),
    "card.title_next": (
        "Claude Code 完成，接下来？",
        "Claude Code is done. What next?",
    ),
    "kind.form": ("表单", "Form"),
    "kind.next": ("完成", "Done"),
    "card.took": ("耗时", "Took"),
    "card.tool": ("工具", "Tool"),
    "card.fold": (
        "展开全文（{lines} 行，{count} 个字符）",
        "Show all of it ({lines} lines, {count} characters)",
    ),
    "card.attaching": (
        "⚠ 内容过长，全文将以附件发送，收到后才能批准",
        "⚠ Too long for a card: the whole follows as a file, and only then it can be "
        "allowed",
    ),
    "card.attached": (
        "⚠ 内容过长，全文见下方附件",
        "⚠ Too long for a card: the whole is in the file below",
    ),
    "card.title_only": (
        "卡片不显示内容，请打开页面查看后再决定",
        "The card shows no content: open the page to see it and decide",
    ),
    "card.given_back": (
        "子代理的请求：刚有人在这个会话的终端操作过，{seconds} 秒后交回终端",
        "A subagent asks, and somebody has just used this session's terminal: it goes "
        "back there after {seconds} seconds",
    ),
    "card.zero_deny": ("{time} 后自动拒绝", "denied automatically after {time}"),
    "card.zero_stands": ("{time} 后维持拒绝", "stays refused after {time}"),
    "card.zero_terminal": ("{time} 后交回终端", "left to the terminal after {time}"),
    "card.hurry": ("还剩 {seconds} 秒", "{seconds} seconds left"),
    "card.signed": ("由 {who} 于 {time} 在 {where}", "by {who} at {time}, {where}"),
    "card.signed_nobody": ("于 {time} {where}", "at {time} {where}"),
    "notice.failure": ("Claude Code 出错", "Claude Code failed"),
    "notice.notification": ("Claude Code 通知", "Claude Code notice"),
    "notice.stop": ("Claude Code 已完成", "Claude Code has finished"),
    "notice.supervisor_allow": (
        "Claude Code 审查通过",
        "Claude Code review: may stop",
    ),
    "notice.supervisor_block": (
        "Claude Code 审查要求继续",
        "Claude Code review: go on",
    ),
    "notice.test": ("Claude Code 测试卡片", "Claude Code test card"),
    "notice.pass": ("Claude Code 通行证（命令行）", "A pass for Claude Code, typed"),
    "pass.typed": (
        "{time} 前直接放行。不是你？feishuperm passes revoke all，或在收件箱撤销",
        "Goes through until {time}. Not yours? feishuperm passes revoke all, or revoke "
        "it in the inbox",
    ),
    "notice.tried": (
        "Claude Code 会话试图自己处理请求",
        "A Claude Code session tried to answer itself",
    ),
    "notice.unreadable": ("Claude Code 权限请求", "Claude Code permission request"),
    "notice.unreadable_text": (
        "收到一个权限请求，但无法解析详情，请在终端查看",
        "A permission request came and could not be read: please see the terminal",
    ),
    # What is dangerous about a call, and what is merely good to know.
    "danger.delete": (
        "删除项目之外的内容：{what}",
        "Deletes outside the project: {what}",
    ),
    "danger.unsure": (
        "删除的目标要到运行时才能确定：{what}",
        "Deletes what only the run will tell: {what}",
    ),
    "danger.wipe": ("丢弃后无法恢复：{what}", "Cannot be brought back: {what}"),
    "danger.overwrite": (
        "改写项目之外的文件：{what}",
        "Overwrites outside the project: {what}",
    ),
    "danger.publish": ("对外发布：{what}", "Publishes: {what}"),
    "danger.force": (
        "强制推送或删除远端分支：{what}",
        "Rewrites or deletes at the remote: {what}",
    ),
    "danger.root": ("以管理员权限运行：{what}", "Runs with root rights: {what}"),
    "danger.downloaded": (
        "运行刚下载的内容：{what}",
        "Runs what it has just downloaded: {what}",
    ),
    "danger.decoded": (
        "运行解码得到的内容：{what}",
        "Runs what it has decoded: {what}",
    ),
    "danger.inject": (
        "让别的程序先加载它的代码：{what}",
        "Makes other programs load its code first: {what}",
    ),
    "danger.startup": (
        "修改开机、登录或定时运行的内容：{what}",
        "Changes what runs at start, at login or later: {what}",
    ),
    "danger.keys": ("修改密钥或凭据：{what}", "Changes keys or credentials: {what}"),
    "danger.leak": (
        "把密钥或凭据发送出去：{what}",
        "Sends keys or credentials away: {what}",
    ),
    "danger.ci": ("修改 CI 配置：{what}", "Changes the CI configuration: {what}"),
    "danger.permissions": (
        "修改权限、钩子或 Claude 的设置：{what}",
        "Changes permissions, hooks or Claude's settings: {what}",
    ),
    "danger.data": ("销毁数据：{what}", "Destroys data: {what}"),
    "danger.machine": (
        "关闭或销毁机器、服务：{what}",
        "Stops or destroys machines or services: {what}",
    ),
    "danger.money": ("动用资金：{what}", "Moves money: {what}"),
    "danger.packages": (
        "修改软件包的来源或安装时运行的脚本：{what}",
        "Changes where packages come from, or what installing them runs: {what}",
    ),
    "danger.tunnel": (
        "让外部能连到这台机器：{what}",
        "Opens this machine to the outside: {what}",
    ),
    "danger.device": ("直接写入磁盘设备：{what}", "Writes to a disk itself: {what}"),
    "danger.unread": (
        "有一部分读不懂，其中出现：{what}",
        "Part of it cannot be read, and it holds: {what}",
    ),
    "danger.note": (
        "没有标记不代表安全：这里只读命令的文字，不运行，也不问模型。",
        "No mark does not mean safe: only the text of the call is read; nothing is run "
        "and no model is asked.",
    ),
    "fact.host": ("访问：{what}", "Contacts: {what}"),
    "fact.letters": (
        "名称里有容易看错的字母：{what}",
        "A name with letters that look like others: {what}",
    ),
    "fact.outside": ("涉及项目之外的路径：{what}", "Paths outside the project: {what}"),
    "fact.installs": ("安装软件包：{what}", "Installs: {what}"),
    "fact.package": (
        "运行软件包（可能先下载）：{what}",
        "Runs a package, perhaps fetched first: {what}",
    ),
    "fact.push": ("推送到远端：{what}", "Pushes: {what}"),
    "fact.deletes": ("删除：{what}", "Deletes: {what}"),
    "fact.discards": ("放弃这些文件的改动：{what}", "Gives up changes: {what}"),
    "fact.keys": ("读取密钥或凭据：{what}", "Reads keys or credentials: {what}"),
    "fact.remote": ("在别处生效：{what}", "Takes effect elsewhere: {what}"),
    "fact.container": ("停止或删除容器、镜像：{what}", "Stops or removes: {what}"),
    "fact.opaque": (
        "有一部分要到运行时才能确定：{what}",
        "Part of it only the run will tell: {what}",
    ),
    "fact.unread": ("有一部分无法读懂", "Part of it cannot be read"),
    # Passes.
    "pass.minutes": (
        "此后 10 分钟内，会话 {session} 在项目 {project} 中，下面这些不再询问："
        "\n{scope}\n只在文件夹 {folder} 中；它运行的本地文件一旦改变，就会重新询问。"
        "带有危险标记的调用仍会询问；可以随时撤销。",
        "For 10 minutes from now, in session {session} and project {project}, this "
        "goes through without asking:\n{scope}\nOnly in the folder {folder}, and only "
        "while the local files it runs stay as they are. What bears a danger mark "
        "still asks; it can be revoked at any time.",
    ),
    "pass.session": (
        "在会话 {session} 结束前（最长 24 小时），项目 {project} 中的下面这些不再询问："
        "\n{scope}\n只在文件夹 {folder} 中；它运行的本地文件一旦改变，就会重新询问。"
        "带有危险标记的调用仍会询问；可以随时撤销。",
        "Until session {session} ends (24 hours at most), in project {project}, this "
        "goes through without asking:\n{scope}\nOnly in the folder {folder}, and only "
        "while the local files it runs stay as they are. What bears a danger mark "
        "still asks; it can be revoked at any time.",
    ),
    "pass.changed": (
        "通行证 {id} 已结束：它运行的文件改变了",
        "Pass {id} has ended: a file that it runs has changed",
    ),
    "pass.call": ("只限这一次调用的原样重复：{what}", "Only this very call: {what}"),
    "pass.title": ("通行证", "Passes"),
    "pass.none": ("没有通行证", "There are no passes"),
    "pass.made": ("通行证 {id}，到 {until}", "Pass {id}, until {until}"),
    "pass.left": ("还可用 {count} 次", "{count} calls left"),
    "pass.until": ("到 {until}", "until {until}"),
    "pass.revoke": ("撤销", "Revoke"),
    "pass.revoke_all": ("全部撤销", "Revoke all"),
    "pass.revoked": ("已撤销 {count} 张通行证", "{count} passes revoked"),
    # Fields of a tool call.
    "field.args": ("参数", "Arguments"),
    "field.cell_id": ("单元格", "Cell"),
    "field.cell_type": ("单元格类型", "Cell type"),
    "field.command": ("命令", "Command"),
    "field.content": ("内容", "Content"),
    "field.description": ("说明", "Description"),
    "field.diff": ("改动", "Change"),
    "field.edited": ("改后的命令", "Changed command"),
    "field.edit_mode": ("方式", "Mode"),
    "field.file_path": ("文件", "File"),
    "field.glob": ("文件匹配", "File pattern"),
    "field.input": ("参数", "Input"),
    "field.limit": ("行数", "Lines"),
    "field.new_source": ("内容", "Source"),
    "field.notebook_path": ("笔记本", "Notebook"),
    "field.offset": ("起始行", "From line"),
    "field.other": ("其他参数", "Also"),
    "field.output_mode": ("输出方式", "Output"),
    "field.pages": ("页", "Pages"),
    "field.path": ("路径", "Path"),
    "field.pattern": ("匹配", "Pattern"),
    "field.plan": ("计划", "Plan"),
    "field.planFilePath": ("计划文件", "Plan file"),
    "field.prompt": ("提示词", "Prompt"),
    "field.query": ("搜索", "Query"),
    "field.questions": ("问题", "Question"),
    "field.remark": ("拒绝原因", "Why it was refused"),
    "field.last_assistant_message": ("Claude 最后说", "Claude's last words"),
    "field.mcp_server_name": ("MCP 服务器", "MCP server"),
    "field.message": ("说明", "Message"),
    "field.host": ("主机", "Host"),
    "field.run_in_background": ("后台运行", "In the background"),
    "field.skill": ("技能", "Skill"),
    "field.subagent_type": ("子代理", "Agent"),
    "field.timeout": ("超时（毫秒）", "Time-out (ms)"),
    "field.type": ("文件类型", "File type"),
    "field.url": ("网址", "URL"),
    # Pages.
    "page.name": ("Claude Code 权限请求", "Claude Code permission requests"),
    "page.success": ("操作成功", "Done"),
    "page.invalid": (
        "请求无效或已过期",
        "This request is invalid or has expired",
    ),
    "page.unknown": (
        "找不到这个请求：链接不完整，或者请求早已结束。",
        "No such request: the link is incomplete, or the request ended long ago.",
    ),
    "page.returning": ("请求正在恢复", "The request is on its way back"),
    "page.returning_hint": (
        "服务刚刚重启，这个请求还没有回来，请稍后再试。没有做任何决定。",
        "The server has just restarted and this request is not back yet. Nothing was "
        "decided; try again in a moment.",
    ),
    "page.not_found": ("没有这个页面", "There is no such page"),
    "page.refused": ("无法打开", "This cannot be opened"),
    "page.inbox_off": (
        "设置 FEISHUPERM_SURFACES 关闭了收件箱。",
        "FEISHUPERM_SURFACES has switched the inbox off.",
    ),
    "page.inbox_closed": (
        "收件箱只能在运行服务的电脑上打开，或使用 feishuperm status 给出的链接。",
        "The inbox opens on the machine that runs the server, or with the link that "
        "feishuperm status prints.",
    ),
    "page.foreign": (
        "这个操作不是从 feishuperm 的页面发出的，没有执行。",
        "This did not come from one of feishuperm's own pages; nothing was done.",
    ),
    "page.wrong_host": (
        "这个地址不是 feishuperm 的：请使用 CALLBACK_SERVER_URL 里的地址。",
        "This is not feishuperm's address: use the one in CALLBACK_SERVER_URL.",
    ),
    "page.upgrade": ("这里只有网页。", "There is nothing here but pages."),
    "page.other_user": (
        "链接指向本机时，只有运行服务的用户自己的程序可以打开。要从别处打开，请把 "
        "CALLBACK_SERVER_URL 设为别处能访问的地址。",
        "While the links point to this machine, only programs of the user who runs the "
        "server may open them. To open them from elsewhere, set CALLBACK_SERVER_URL to "
        "an address that can be reached from there.",
    ),
    "page.agent": (
        "没有执行：这个操作来自提出请求的会话自己的进程 {process}。请在手机上，或用会话"
        "之外的浏览器操作。",
        "Nothing was done: this came from {process}, a process of the session that "
        "asks. Use the phone, or a browser outside the session.",
    ),
    "ended.tried": (
        "提出请求的会话曾试图自己回答（{process}），已被拒绝。",
        "The session that asked tried to answer itself ({process}), and was refused.",
    ),
    "session.once": (
        "这个链接只能使用一次，十分钟内有效。",
        "This link works once, within ten minutes.",
    ),
    "session.title": ("已登录的浏览器", "Browsers that are let in"),
    "session.own": ("当前浏览器", "this one"),
    "session.address": ("地址", "Address"),
    "session.created": ("登录时间", "Since"),
    "session.seen": ("最近使用", "Last seen"),
    "session.end": ("退出", "Sign out"),
    "session.end_all": ("全部退出", "Sign all out"),
    "page.too_many": (
        "无效链接太多，请稍后再试。",
        "Too many invalid links. Try again later.",
    ),
    "page.confirm": ("请确认操作", "Please confirm"),
    "page.confirm_hint": (
        "打开链接还没有做任何决定，点下面的按钮才会生效。",
        "Nothing is decided yet: only the button below decides.",
    ),
    "page.request": ("权限请求", "Permission request"),
    "page.next_text": ("接下来做什么", "What to do next"),
    "page.next_hint": ("例如：继续，跑一遍测试", "For example: go on, run the tests"),
    "page.next_empty": ("（没有留下话）", "(no last words)"),
    "page.next_note": (
        "Claude 会被告知这段话来自会话之外，不是终端里的输入；它不能用来批准任何操作。",
        "Claude is told that this text came from outside the session and was not typed "
        "in the terminal; it cannot approve anything.",
    ),
    "page.back": ("可以关闭此页面，回到飞书。", "You can close this page."),
    "page.why": ("Claude 说：", "Claude said:"),
    "page.prompt": ("任务：", "Working on:"),
    "page.left": ("剩余 {left}", "{left} left"),
    "page.until": ("请在 {until} 前操作", "Decide before {until}"),
    "page.time_over": ("时间已到", "Time is over"),
    "page.reason": ("拒绝理由", "Reason for denying"),
    "page.reason_hint": ("可选，会转告 Claude", "Optional; Claude is told"),
    "page.always_hint": (
        "以后不再询问，并写入这个项目的规则：",
        "Never ask again; writes this rule for the project:",
    ),
    "page.always_rule": (
        "写入这个项目的规则：",
        "Writes this rule for the project:",
    ),
    "page.always_none": ("不会写入规则：{why}", "No rule will be written: {why}"),
    "page.answer_other": ("其他（自己填写）", "Other (in your own words)"),
    "page.answer_other_single": (
        "填写后代替上面的选择",
        "Replaces the choice above",
    ),
    "page.answer_other_multi": ("附加在上面的选择之后", "Added to the choices above"),
    "page.answer_single": ("单选", "Choose one"),
    "page.answer_multi": ("可多选", "Choose any"),
    "page.answer_empty": ("请至少回答一个问题。", "Answer at least one question."),
    "page.answer_unknown": (
        "有一个选项不在问题中，请重新选择。",
        "One choice was not offered. Please choose again.",
    ),
    "page.plan_empty": ("（没有计划文件）", "(no plan file)"),
    "page.nothing": ("（没有参数）", "(no parameters)"),
    "page.open_inbox": ("打开收件箱", "Open the inbox"),
    "page.key.rule": ("规则", "Rule"),
    "page.key.ran": ("改后运行", "Ran instead"),
    "page.key.reason": ("理由", "Reason"),
    "page.key.answer": ("回答", "Answer"),
    "page.key.request": ("内容", "What"),
    "page.key.result": ("结果", "Result"),
    "page.done_at": ("{done} · {time}", "{done} at {time}"),
    "page.key.when": ("处理时间", "Settled at"),
    "page.key.head": ("账本", "Ledger"),
    "page.key.where": ("处理方式", "Settled by"),
    # What became of a request.
    "done.answer": ("已提交回答", "Answered"),
    "done.approve": ("已批准计划", "Plan approved"),
    "done.deny_plan": ("已退回计划", "Plan sent back"),
    "done.deny_question": ("已拒绝回答", "Question declined"),
    "done.once": (
        "已放行一次，十分钟内有效",
        "It may run once, within ten minutes",
    ),
    "done.stand": ("未放行", "It stays refused"),
    "done.send": ("已发送", "Sent"),
    "done.end": ("已结束", "Ended here"),
    "done.submit": ("已提交", "Submitted"),
    "done.refuse": ("已拒绝", "Declined"),
    "ended.expired": (
        "请求已过期：没有人及时操作。",
        "The request has expired: nobody answered in time.",
    ),
    "ended.expired_denied": (
        "已超时，自动拒绝",
        "Timed out, denied automatically",
    ),
    "ended.given_back": (
        "子代理的请求：有人在这个会话的终端操作，由终端询问。",
        "A subagent's request: somebody is at this session's terminal, which asks now.",
    ),
    "ended.expired_terminal": (
        "已超时，交回终端",
        "Timed out, left to the terminal",
    ),
    "ended.expired_stands": (
        "已超时，维持拒绝",
        "Timed out, still refused",
    ),
    "ended.terminal": ("请求已在终端处理", "Answered in the terminal"),
    "ended.gone": ("会话已结束", "The session has ended"),
    "ended.gone_hint": (
        "Claude Code 不再等待这个请求。",
        "Claude Code no longer waits for this request.",
    ),
    "ended.released": ("已交回终端", "Handed back to the terminal"),
    "ended.released_hint": (
        "请到终端处理这个请求。",
        "Please answer this request in the terminal.",
    ),
    "ended.revoked": ("机器已被移除", "The machine was revoked"),
    "ended.revoked_hint": (
        "这台机器不再通过网关接收操作，请求留给它自己的终端",
        "It takes no more taps through the gateway; its own terminal decides",
    ),
    "ended.unknown": ("结果未知", "Not known"),
    "ended.unknown_hint": (
        "处理这次操作时服务中断了，请看终端",
        "The server ended while it was deciding this; look at the terminal",
    ),
    # What came of it.
    "result.ran": ("已运行完毕", "It ran"),
    "result.exit": (
        "已运行，退出码 {detail}",
        "It ran and ended with exit status {detail}",
    ),
    "result.failed": ("运行失败：{detail}", "It failed: {detail}"),
    "result.refused": (
        "被规则拒绝，没有运行",
        "A rule refused it; it did not run",
    ),
    "result.not_run": ("没有运行", "It did not run"),
    "result.stopped": ("已被中断", "It was interrupted"),
    "result.heard": ("Claude 已收到", "Claude has received it"),
    "button.undo": ("撤销", "Undo"),
    "done.undo": ("已撤销", "Taken back"),
    "undo.done": (
        "规则已从项目中移除；正在运行的会话结束前仍然有效。",
        "The rule is out of the project; a session that runs keeps it until it ends.",
    ),
    "undo.failed": (
        "规则没有撤销，请看 feishuperm log。",
        "The rule was not taken back; see feishuperm log.",
    ),
    "surface.link": ("网页", "web page"),
    "surface.card": ("飞书卡片", "Feishu card"),
    "surface.message": ("飞书消息", "Feishu message"),
    "surface.webhook": ("飞书卡片", "Feishu card"),
    "surface.page": ("网页", "web page"),
    "surface.inbox": ("收件箱", "inbox"),
    "surface.terminal": ("终端", "terminal"),
    "surface.gateway": ("飞书卡片", "Feishu card"),
    "surface.pass": ("通行证", "pass"),
    "surface.control": ("命令行", "command line"),
    # Why an answer counts for nothing.
    "answer.late": (
        "点击到达得太晚，没有执行，请再点一次",
        "The tap came too late and did nothing: please tap again",
    ),
    "answer.surface": (
        "设置 FEISHUPERM_SURFACES 不允许在这里处理请求，没有执行。",
        "FEISHUPERM_SURFACES does not let requests be answered here; nothing was done.",
    ),
    "answer.unrecorded": (
        "无法写入决策记录，没有批准；请到终端处理这个请求。",
        "The decision could not be recorded, so nothing was allowed: please answer in "
        "the terminal.",
    ),
    "answer.empty": (
        "命令是空的，没有执行。",
        "The command is empty; nothing was done.",
    ),
    "answer.long": (
        "命令超过 1000 个字符，没有执行。",
        "The command is longer than 1000 characters; nothing was done.",
    ),
    "answer.nothing": (
        "还没有填写内容，没有发送。",
        "There is nothing in it; nothing was sent.",
    ),
    "form.required_label": ("{label}（必填）", "{label} (required)"),
    "form.yes": ("是", "yes"),
    "form.no": ("否", "no"),
    "form.email": ("邮箱地址", "an e-mail address"),
    "form.uri": ("网址", "an address"),
    "form.date": ("日期，如 2026-01-31", "a date such as 2026-01-31"),
    "form.date_time": (
        "时间，如 2026-01-31T08:30:00+08:00",
        "a time such as 2026-01-31T08:30:00+08:00",
    ),
    "form.number": ("数字", "a number"),
    "form.integer": ("整数", "a whole number"),
    "form.length": ("{bounds} 个字符", "{bounds} characters"),
    "form.items": ("选 {bounds} 项", "choose {bounds}"),
    "form.missing": ("“{field}”还没有填写。", "“{field}” is missing."),
    "form.wrong_length": (
        "“{field}”的长度不符合要求。",
        "“{field}” is too short or too long.",
    ),
    "form.wrong_format": (
        "“{field}”的格式不对。",
        "“{field}” is not of the form that is asked for.",
    ),
    "form.wrong_number": ("“{field}”应当是数字。", "“{field}” must be a number."),
    "form.wrong_integer": (
        "“{field}”应当是整数。",
        "“{field}” must be a whole number.",
    ),
    "form.wrong_range": ("“{field}”超出范围。", "“{field}” is out of range."),
    "form.wrong_choice": (
        "“{field}”的选项不在表单中。",
        "“{field}” holds a choice that was not offered.",
    ),
    "form.wrong_count": (
        "“{field}”选择的项数不对。",
        "“{field}” has too few or too many choices.",
    ),
    "answer.not_offered": (
        "这个请求没有这个操作，没有执行。",
        "This request offers no such action; nothing was done.",
    ),
    "answer.other": (
        "请求的内容已不是看到的那个，没有执行。",
        "The request is not the one that was shown; nothing was done.",
    ),
    "answer.masked": (
        "卡片遮盖了其中一部分，没有执行。请打开完整请求再决定。",
        "Part of it is masked here; nothing was done. Open the full request to decide.",
    ),
    # The app: taps, texts, and what is wrong with it.
    "answer.only_owner": ("只有 {owner} 可以操作", "Only {owner} may do this"),
    "answer.held": (
        "已停表，请在 {time} 前操作",
        "The clock is stopped: please answer before {time}",
    ),
    "answer.again": (
        "服务刚刚重启，请再点一次",
        "The server has just restarted: please tap again",
    ),
    "burst.allow_all": ("全部批准", "Allow all shown"),
    "burst.deny_all": ("全部拒绝", "Deny all shown"),
    "burst.changed": (
        "卡片已更新，请再点一次",
        "The card has changed: please tap again",
    ),
    "burst.done": ("已全部处理", "All of them are settled"),
    "burst.left": (
        "已处理 {count} 个；未包含：{what}",
        "{count} are settled; left out: {what}",
    ),
    "burst.not_all": (
        "“全部批准”不包含有危险或未完整显示的 {count} 个请求",
        "“Allow all shown” leaves out {count} that are dangerous or not shown whole",
    ),
    # The gateway, and pairing a machine with it.
    "gateway.title": ("feishuperm 网关", "feishuperm gateway"),
    "gateway.again": ("请再点一次", "Please tap again"),
    "gateway.sent": ("已发送给 {machine}", "Sent to {machine}"),
    "gateway.away": ("{machine} 不在线", "{machine} is not connected"),
    "gateway.since": ("（自 {time} 起）", " (since {time})"),
    "gateway.machines": ("我的机器", "My machines"),
    "gateway.no_machines": (
        "还没有机器。在机器上运行 feishuperm join，再把六位配对码发给我。",
        "No machine yet. Run feishuperm join there and send me its six digits.",
    ),
    "gateway.more": ("还有 {count} 台", "{count} more"),
    "gateway.here": ("在线，自 {time}", "connected since {time}"),
    "gateway.gone": ("不在线，自 {time}", "away since {time}"),
    "gateway.rename": ("改名", "Rename"),
    "gateway.renamed": ("已改名为 {machine}", "Its name is {machine} now"),
    "gateway.revoke": ("移除", "Revoke"),
    "gateway.revoke_confirm": (
        "移除 {machine}？它的请求不再出现在这里，等待中的卡片立即失效。",
        "Revoke {machine}? Its requests come here no more; open cards are void.",
    ),
    "gateway.revoked": ("已移除 {machine}", "{machine} is revoked"),
    "gateway.not_yours": ("这不是你的机器", "This machine is not yours"),
    "gateway.twice": (
        "{machine} 的密钥同时在两处使用：{old} 和 {new}。较新的连接保留；"
        "如果不是你，请发送“机器”并移除它。",
        "The key of {machine} is used in two places, {old} and {new}. The newer "
        "connection stays; if that is not you, send `machines` and revoke it.",
    ),
    "gateway.help": (
        "发送六位配对码来添加机器，发送“机器”查看和移除；回复卡片即可作答。",
        "Send six digits to add a machine, `machines` to see and revoke them; reply to "
        "a card to answer it.",
    ),
    "pair.title": ("添加这台机器？", "Add this machine?"),
    "pair.machine": ("机器：{name}", "Machine: {name}"),
    "pair.user": ("用户：{user}", "User: {user}"),
    "pair.address": ("地址：{address}", "Address: {address}"),
    "pair.no_address": (
        "地址：未知（经由代理 {proxy}）",
        "Address: not known (it comes through the proxy {proxy})",
    ),
    "pair.warning": (
        "确认后，它的请求会发给你，由你决定。只确认你自己正在添加的机器。",
        "Its requests will come to you, and your taps decide them. Confirm only a "
        "machine that you are adding yourself right now.",
    ),
    "pair.yes": ("确认添加", "Add it"),
    "pair.no": ("不是我的", "Not mine"),
    "pair.done": ("已添加 {name}", "{name} is added"),
    "pair.refused": ("未添加 {name}", "{name} was not added"),
    "pair.over": (
        "配对已结束，请在机器上重新运行 feishuperm join",
        "This pairing is over: run feishuperm join again",
    ),
    "pair.other": ("这张卡片是给另一个人的", "This card is for somebody else"),
    "pair.forbidden": (
        "你不在这个网关的名单里（GATEWAY_OWNERS）",
        "You are not on this gateway's list (GATEWAY_OWNERS)",
    ),
    "pair.wrong": (
        "没有机器显示这个配对码，或者它已过期",
        "No machine shows this code, or it has expired",
    ),
    "pair.locked": (
        "错误的配对码太多，请十分钟后再试",
        "Too many wrong codes: try again in ten minutes",
    ),
    "chat.help": (
        "回复卡片：1-4、批准、始终、拒绝 [理由]、中断，或直接写答案。"
        "命令：状态、静音 [时间]、恢复、通行证、撤销。",
        "Reply to a card: 1-4, allow, always, deny [reason], interrupt, or the answer "
        "itself. Commands: status, mute [time], on, passes, undo.",
    ),
    "chat.over": (
        "这条消息对应的请求已经结束。",
        "The request of that message is over.",
    ),
    "chat.burst": (
        "这张卡片有多个请求，请直接点按卡片上的按钮。",
        "That card holds several requests: please tap its buttons.",
    ),
    "chat.unclear": (
        "没看懂。请回复 1-4、批准、拒绝 [理由] 或 中断。",
        "That is not clear. Reply 1-4, allow, deny [reason] or interrupt.",
    ),
    "chat.mean": (
        "是指“{what}”吗？请直接回复那张卡片。",
        "Did you mean “{what}”? Please reply to its card.",
    ),
    "chat.always": (
        "将写入规则：\n{rules}\n再回复一次“始终”即写入。",
        "This rule would be written:\n{rules}\nReply “always” once more to write it.",
    ),
    "chat.muted": (
        "静音到 {time}，期间请求留在终端。",
        "Muted until {time}; requests stay in the terminal.",
    ),
    "chat.on": ("已恢复。", "On again."),
    "chat.undone": (
        "已撤销规则：\n{rules}\n正在运行的会话结束之前仍按原规则执行。",
        "This rule is taken back:\n{rules}\nA session that runs keeps it till its end.",
    ),
    "chat.undo_nothing": (
        "没有可以撤销的规则。",
        "There is no rule of this chat's to take back.",
    ),
    "chat.undo_failed": ("没有撤销：{why}", "Nothing was taken back: {why}"),
    "app.credentials": (
        "应用 ID 或密钥不对，请检查 FEISHU_APP_ID 和 FEISHU_APP_SECRET",
        "FEISHU_APP_ID or FEISHU_APP_SECRET is wrong",
    ),
    "app.too_many": (
        "这个应用的长连接太多（上限 50）",
        "the app has too many long connections (50 at most)",
    ),
    "app.forbidden": (
        "飞书拒绝了长连接：应用未发布或机器人未启用",
        "Feishu refuses the long connection: publish the app and switch its bot on",
    ),
    "app.busy": (
        "飞书暂时繁忙；如果一直如此，请发布应用",
        "Feishu is busy; if that lasts, the app was never published",
    ),
    "app.bot_off": (
        "应用的机器人未启用：启用后发布版本",
        "the app's bot is switched off: switch it on and publish a version",
    ),
    "app.callback": (
        "点按到不了应用：请用长连接订阅 card.action.trigger 并发布版本",
        "taps do not reach the app: subscribe to card.action.trigger by long "
        "connection and publish a version",
    ),
    "app.shared": (
        "这个应用有 {count} 条长连接，每次点按只到其中一条：请关掉另一台机器上的服务",
        "the app has {count} connections and each tap reaches one of them: end the "
        "server on the other machine, or give it an app of its own",
    ),
    "app.unreachable": (
        "飞书的回答无法识别，可能有代理在中间",
        "the answer is not Feishu's: a proxy may be in between",
    ),
    # Inbox.
    "inbox.title": ("收件箱", "Inbox"),
    "inbox.waiting": ("等待处理", "Waiting"),
    "inbox.recent": ("最近处理", "Recently settled"),
    "inbox.none": ("现在没有等待处理的请求", "Nothing is waiting"),
    "inbox.none_hint": (
        "Claude Code 需要许可、提问或提交计划时，会立刻出现在这里。",
        "When Claude Code needs a permission, asks a question or presents a plan, "
        "it appears here at once.",
    ),
    "inbox.ring": ("响铃提醒", "Ring"),
    "inbox.notify": ("桌面通知", "Desktop notices"),
    "inbox.live": ("实时", "Live"),
    "inbox.lost": ("已断开，重连中", "Disconnected, reconnecting"),
    "inbox.expand": ("展开全部（共 {lines} 行）", "Show all {lines} lines"),
    "inbox.collapse": ("收起", "Show less"),
    "inbox.hidden": ("… 中间 {lines} 行未显示 …", "… {lines} lines not shown …"),
    "inbox.sending": ("正在提交…", "Sending…"),
    "inbox.failed": (
        "没有提交成功，请重试",
        "It was not sent. Please try again",
    ),
    "inbox.arrived": ("新的请求：{what}", "New request: {what}"),
    "inbox.ended": ("不再等待", "No longer waiting"),
    "inbox.settled": ("已处理：{what}", "Settled: {what}"),
    "inbox.about.allow": ("让这一次调用运行", "lets this one call run"),
    "inbox.about.always": (
        "让它运行，并写下所示的规则，以后不再询问",
        "lets it run and writes the rule shown: it is not asked again",
    ),
    "inbox.about.deny": (
        "拒绝这一次；写下的理由会告诉 Claude",
        "refuses this one; a reason you type reaches Claude",
    ),
    "inbox.about.interrupt": (
        "拒绝，并结束 Claude 的这一轮工作",
        "refuses, and ends Claude's turn",
    ),
    "inbox.about.answer": (
        "打开问题，选好或写好再提交",
        "opens the question to be answered",
    ),
    "inbox.about.hold": (
        "暂停倒计时，慢慢看（设置了 PERMISSION_HOLD 时）",
        "stops the clock while you read (with PERMISSION_HOLD)",
    ),
    "inbox.help": ("操作说明", "Help"),
    "inbox.help_close": ("关闭", "Close"),
    "inbox.help.select": ("选择请求", "select a request"),
    "inbox.help.option": ("选择第几个选项", "choose an option by its place"),
    "inbox.help.reason": ("填写拒绝理由", "type a reason for denying"),
    "inbox.help.open": ("展开或收起内容，打开问题", "show all or less, open question"),
    "inbox.help.help": ("显示或关闭这个说明", "show or close this help"),
    "inbox.noscript": (
        "此页面需要 JavaScript 才能实时更新。等待处理的请求：",
        "Live updates need JavaScript. Waiting requests:",
    ),
    # "Always allow" without a rule: why there is none, or what stopped the writing.
    "rule.none": (
        "这个请求没有对应的精确规则，仅批准本次",
        "There is no exact rule for this request; it was allowed once",
    ),
    "rule.masked": (
        "内容有遮盖，要始终允许请打开完整请求",
        "Part of it is masked: the full request offers it",
    ),
    "rule.wildcard": (
        "命令中含有 *，写成规则会同时放行其他命令，仅批准本次",
        "The command holds a *, and its rule would allow other commands too; "
        "it was allowed once",
    ),
    "rule.space": (
        "命令首尾的空白让规则无法精确匹配它，仅批准本次",
        "No rule can match the blank the command begins or ends with; "
        "it was allowed once",
    ),
    "rule.question": (
        "路径中含有 ?，写成规则会同时放行其他文件，仅批准本次",
        "The path holds a ?, and its rule would allow other files too; "
        "it was allowed once",
    ),
    "rule.path": (
        "这个路径无法写成精确的规则，仅批准本次",
        "This path cannot be written as an exact rule; it was allowed once",
    ),
    "rule.folder": (
        "这个路径是目录，写成规则会放行其中的所有文件，仅批准本次",
        "The path is a folder, and its rule would allow everything in it; "
        "it was allowed once",
    ),
    "rule.link": (
        "这个路径经过符号链接，规则无法精确对应实际的文件，仅批准本次",
        "The path goes through a symbolic link, and no rule would mean exactly the "
        "file behind it; it was allowed once",
    ),
    "rule.search": (
        "搜索的规则会放行读取整个目录，仅批准本次",
        "A rule for a search would allow reading the whole folder; it was allowed once",
    ),
    "rule.long": (
        "规则超过 2 kB，不写入，仅批准本次",
        "The rule would be longer than 2 kB and is not written; it was allowed once",
    ),
    "rule.broad": (
        "这个工具的任何调用都将直接通过",
        "Every call of this tool will pass without asking",
    ),
    "rule.writes": (
        "命令用 > 或 tee 把输出写入文件：有了规则，Claude Code 仍然每次都会为此询问。",
        "The command writes to a file by > or tee: even with the rule, Claude Code "
        "asks for that every time.",
    ),
    "rule.linked": (
        ".claude/settings.local.json 是符号链接或经过符号链接，不写入规则，仅批准本次",
        ".claude/settings.local.json is a link, or goes through one; no rule is "
        "written, and this request was allowed once",
    ),
    "rule.unparsable": (
        ".claude/settings.local.json 不是有效的 JSON 对象，未做任何改动；本次已批准",
        ".claude/settings.local.json is not a JSON object and was left as it is; "
        "this request was allowed",
    ),
    "rule.structure": (
        ".claude/settings.local.json 中的 permissions.allow 不是列表，未做任何改动；"
        "本次已批准",
        "permissions.allow in .claude/settings.local.json is not a list; the file was "
        "left as it is, and this request was allowed",
    ),
    "rule.unwritable": (
        "无法写入 .claude/settings.local.json，规则未保存；本次已批准",
        ".claude/settings.local.json could not be written and the rule is not saved; "
        "this request was allowed",
    ),
}

UNCOUNTED = 6 * 3600  # nobody counts the seconds of so many hours


def time_hint(ask: Ask) -> str:
    """How long a person has, and what happens then."""
    seconds = text(ask.language, "card.hint", seconds=ask.seconds)
    counted = seconds if ask.seconds < UNCOUNTED else ""
    return " · ".join(filter(None, (counted, at_zero(ask))))


def at_zero(ask: Ask) -> str:
    """What happens when the time of a request is over, and when that is."""
    if not ask.at_zero:
        return ""
    ends = time.strftime("%H:%M", time.localtime(ask.created + ask.seconds))
    return text(ask.language, f"card.zero_{ask.at_zero}", time=ends)


def text(language: str, key: str, **values: object) -> str:
    """The sentence `key` in a language, its blanks filled in."""
    sentence = TEXTS[key][LANGUAGES.index(language)]
    return sentence.format(**values) if values else sentence
