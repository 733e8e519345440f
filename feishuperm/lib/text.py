"""Every sentence a person can read in a card, a page or a hook message.

One row per sentence: key, Chinese, English.  `{name}` is filled in by `text()`.  What a
terminal or a log shows is English and stays where it is printed.
"""

from __future__ import annotations

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
    "message.expired": (
        "权限请求超时，自动拒绝",
        "Permission request timed out, denied automatically",
    ),
    # Buttons.
    "button.allow": ("批准运行", "Allow"),
    "button.always": ("始终允许", "Always allow"),
    "button.deny": ("拒绝运行", "Deny"),
    "button.interrupt": ("拒绝并中断", "Deny and interrupt"),
    # What a button did.
    "done.allow": ("已批准运行", "Allowed"),
    "done.always": ("已始终允许", "Always allowed"),
    "done.deny": ("已拒绝运行", "Denied"),
    "done.interrupt": ("已拒绝并中断", "Denied and interrupted"),
    # Cards.
    # Fields of a tool call.
    "field.args": ("参数", "Arguments"),
    "field.cell_id": ("单元格", "Cell"),
    "field.cell_type": ("单元格类型", "Cell type"),
    "field.command": ("命令", "Command"),
    "field.content": ("内容", "Content"),
    "field.description": ("说明", "Description"),
    "field.diff": ("改动", "Change"),
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
    "field.run_in_background": ("后台运行", "In the background"),
    "field.skill": ("技能", "Skill"),
    "field.subagent_type": ("子代理", "Agent"),
    "field.timeout": ("超时（毫秒）", "Time-out (ms)"),
    "field.type": ("文件类型", "File type"),
    "field.url": ("网址", "URL"),
    # Pages.
}

LANGUAGES = ("zh", "en")


def text(language: str, key: str, **values: object) -> str:
    """The sentence `key` in a language, its blanks filled in."""
    sentence = TEXTS[key][LANGUAGES.index(language)]
    return sentence.format(**values) if values else sentence
