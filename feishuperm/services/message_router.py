"""MessageRouter: the options of a query, with the hooks of the injected HookManager."""

from __future__ import annotations

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Any

    from feishuperm.services.config_manager import ProjectConfig
    from feishuperm.services.hook_manager import HookManager, HookMatcher


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
        return options

    def get_hooks_for_sdk(self) -> dict[str, list[HookMatcher]]:
        return self.hook_manager.convert_to_sdk_format()
