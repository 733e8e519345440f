"""feishuperm: answer Claude Code from Feishu."""

__version__ = "0.2.0"
