"""Copilot CLI: how its event becomes Claude Code's, and what its hook is told."""

from __future__ import annotations
