"""MessageRouter: the options of a query, with the hooks of the injected HookManager."""

from __future__ import annotations

import json
from typing import Any

from feishuperm.engine.config_manager import ProjectConfig, merge_settings
from feishuperm.engine.hook_manager import HookManager
from feishuperm.engine.sdk_hooks import HookMatcher


class MessageRouter:
    """Builds what `ClaudeAgentOptions(**options)` takes."""

    def __init__(self, hook_manager: HookManager, config: ProjectConfig) -> None:
        self.hook_manager = hook_manager
        self.config = config

    def build_query_options(self) -> dict[str, Any]:
        """The options of a query in this project; `hooks` only if there are any."""
        options: dict[str, Any] = {"cwd": self.config.root}
        hooks = self.get_hooks_for_sdk()
        if hooks:
            options["hooks"] = hooks
            options["settings"] = json.dumps(self._settings())
        return options

    def _settings(self) -> dict[str, Any]:
        """What keeps the client from running the same hooks out of the same files.

        Callbacks of an SDK are not touched by this switch.  A file the client skips
        for a `script` in it comes along, so that its permissions hold.
        """
        skipped = [file.rest for file in self.config.skippable()]
        return {**merge_settings(skipped), "disableAllHooks": True}

    def get_hooks_for_sdk(self) -> dict[str, list[HookMatcher]]:
        return self.hook_manager.convert_to_sdk_format()
