"""feishuperm: answer Claude Code from Feishu."""

__version__ = "0.1.0"
