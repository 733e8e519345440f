"""opencode: how its event becomes Claude Code's, and what its plugin is told."""

from __future__ import annotations
