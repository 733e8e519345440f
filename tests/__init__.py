"""The tests, room by room.  Where each promise is kept:

Never an allow that no person gave:
    tests/e2e/test_attack_access.py, tests/e2e/test_hostile_page.py,
    tests/soak/
Never a waiting session that nobody will answer:
    tests/e2e/test_restart.py, tests/soak/
What auto mode refused runs once at the most:
    tests/services/test_one_time_allows.py, tests/e2e/test_denied.py
No hook is left behind by its session:
    tests/e2e/test_next.py
The terminal works as without us while Feishu is silent:
    tests/e2e/test_evening.py
One id, one decision:
    tests/services/test_request_manager.py,
    tests/e2e/test_permission_loop.py
No tap lost: done once and told so, or to be tried again:
    tests/app/test_channel.py, tests/soak/test_app.py,
    tests/soak/test_gateway.py
A forged tap reaches no machine; a hostile machine or passer-by starves nobody:
    tests/gateway/test_taps.py, tests/channels/test_gateway.py,
    tests/gateway/test_attacks.py, tests/soak/test_gateway.py
Never a half-written or reformatted file:
    tests/lib/test_settings_editor.py, tests/services/test_rule_writer.py
The record is true:
    tests/services/test_ledger.py, tests/services/test_ledger_check.py,
    tests/e2e/test_ledger.py
Never a secret in a log, a process list, a card:
    tests/lib/test_secrets.py, tests/e2e/test_ledger.py,
    tests/e2e/test_channels.py, tests/e2e/test_app_secrets.py
A project decides nothing:
    tests/e2e/test_run.py, tests/hooks/test_trust.py
A value never becomes shell:
    tests/hooks/test_shell_template.py
Never an app whose secret is lost in silence:
    tests/setup/test_scan.py, tests/e2e/test_scan.py
Never a use more than a pass grants, none after its end:
    tests/services/test_passes.py
What is dangerous bears a mark:
    tests/danger/, with tests/data/danger_corpus.txt
Broken input harms nothing:
    tests/fuzz/
Code beside the archive runs only if it is of this build, for this Python, and
nobody else could write it:
    tests/test_loader.py, tests/e2e/test_start.py
A release installs as it was built, or not at all:
    tests/e2e/test_release.py
"""
