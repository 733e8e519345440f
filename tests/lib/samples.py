"""One realistic call of every tool, for the tests of details, cards and pages."""

from __future__ import annotations

from typing import Any

QUESTION = {
    "question": "Which database?",
    "header": "Database",
    "multiSelect": False,
    "options": [
        {"label": "PostgreSQL", "description": "the usual choice"},
        {"label": "SQLite", "description": "one file"},
    ],
}
CALLS: dict[str, dict[str, Any]] = {
    "Bash": {
        "command": "npm run build && echo done",
        "description": "Build the project",
        "timeout": 120000,
        "run_in_background": True,
    },
    "Edit": {
        "file_path": "/path/to/file.js",
        "old_string": "const a = 1\nconst b = 2\n",
        "new_string": "const a = 1\nconst b = 3\n",
        "replace_all": False,
    },
    "apply_patch": {
        "command": "*** Begin Patch\n*** Delete File: old.py\n"
        "*** Update File: new.py\n@@\n-one\n+uno\n*** End Patch"
    },
    "MultiEdit": {
        "file_path": "/path/to/file.py",
        "edits": [
            {"old_string": "one", "new_string": "uno"},
            {"old_string": "two", "new_string": "dos", "replace_all": True},
        ],
    },
    "Write": {"file_path": "/path/to/new.py", "content": "print('hello')\n"},
    "NotebookEdit": {
        "notebook_path": "/path/to/book.ipynb",
        "cell_id": "c1",
        "cell_type": "code",
        "edit_mode": "replace",
        "new_source": "print(1)",
    },
    "Read": {"file_path": "/etc/hosts", "offset": 10, "limit": 20},
    "Glob": {"pattern": "**/*.py", "path": "/srv/app"},
    "Grep": {"pattern": "TODO|FIXME", "path": "/srv/app", "glob": "*.py", "-n": True},
    "WebFetch": {"url": "https://example.com/page?q=1", "prompt": "Summarise it"},
    "WebSearch": {"query": "feishu card", "allowed_domains": ["open.feishu.cn"]},
    "Task": {
        "subagent_type": "Explore",
        "description": "Look around",
        "prompt": "Find the parser.\nReport its path.",
    },
    "Agent": {
        "subagent_type": "general-purpose",
        "description": "Do it",
        "prompt": "Fix the bug",
    },
    "Skill": {"skill": "commit", "args": "-m x"},
    "AskUserQuestion": {
        "questions": [
            QUESTION,
            {**QUESTION, "question": "Which sizes?", "multiSelect": True},
        ]
    },
    "ExitPlanMode": {
        "plan": "# Plan\n\n1. Do **this**\n2. Then [that](https://example.com)\n",
        "planFilePath": "/home/u/.claude/plans/x.md",
    },
    "mcp__github__create_issue": {"title": "A bug", "labels": ["bug"], "body": "x\ny"},
    "SomethingNew": {"alpha": 1, "beta": {"gamma": [True, None]}},
}
