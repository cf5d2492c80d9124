"""What users of other language servers and agents have suffered, and the tests here that would catch it.

A test is named by its file and its name; a scenario or a script of another language by its file and a text in it.
"""

from __future__ import annotations

WIRE, LSP, SESSIONS = "tests/wire/", "tests/unit/lsp/", "tests/unit/sessions/"
LIFE, REQUESTS, MALFORMED = WIRE + "test_life.py", WIRE + "test_requests.py", WIRE + "test_malformed.py"
SERVER, WINDOWS, WATCH = LSP + "test_server.py", SESSIONS + "test_windows.py", SESSIONS + "test_watch.py"
DOCUMENTS, VSCODE = LSP + "test_documents.py", "tests/e2e/vscode/scenarios/"

SYMPTOMS: dict[str, tuple[tuple[str, str], ...]] = {
    "a print, or a child's output, breaks the framing": (
        (REQUESTS, "test_print_and_children_do_not_break_the_stream"),
    ),
    "the server outlives the editor": (
        (LIFE, "test_it_dies_with_the_editor_although_the_pipes_stay_open"),
        (WIRE + "test_kills.py", "test_no_process_stays_behind"),
    ),
    "a pid of another namespace ends the server": ((LIFE, "test_a_pid_of_another_namespace_is_not_watched"),),
    "work that was cancelled while it waited runs all the same": (
        (REQUESTS, "test_cancel_before_the_first_step_is_answered"),
    ),
    "a handler blocks the event loop": (
        (SERVER, "never_block"),
        ("tests/unit/tools/mcp/test_real.py", "test_the_loop_is_not_blocked"),
    ),
    "slow threads starve the reader": ((REQUESTS, "test_slow_threads_do_not_keep_the_server_from_reading"),),
    "cancelling a command leaves its work running": ((REQUESTS, "test_cancel_reaches_the_work"),),
    "an answer that comes too late does harm": ((REQUESTS, "test_silence_denies_and_a_late_answer_does_no_harm"),),
    "answers are dropped after shutdown": ((LIFE, "test_shutdown_answers_what_is_open"),),
    "shutdown is answered before all is on disk, or never": ((LIFE, "test_shutdown_takes_less_than_two_seconds"),),
    "the exit code is 0 without shutdown": ((LIFE, "test_exit_without_shutdown_is_1"),),
    "both sides wait for each other's answer": ((REQUESTS, "test_a_client_may_ask_before_it_answers"),),
    "an editor that shows no questions never answers": (
        (REQUESTS, "test_silence_denies_and_a_late_answer_does_no_harm"),
    ),
    "notifications overtake each other": ((REQUESTS, "test_order_is_kept"),),
    "events come before the answer that names their run": (
        (REQUESTS, "test_a_run_streams_and_answers"),
        (SERVER, "test_events_go_only_to_those_who_know_them"),
    ),
    "a busy editor and a full pipe get stuck on each other": (
        (REQUESTS, "test_a_slow_reader_does_not_stop_the_server"),
        (WIRE + "test_stuck_reader.py", "test_an_editor_that_does_not_read"),
    ),
    "a full stderr pipe blocks the server": ((REQUESTS, "test_a_client_that_never_reads_stderr"),),
    "whatever is on stderr is shown as an error": ((LIFE, "test_a_quiet_session_writes_nothing_to_stderr"),),
    "lengths are counted in characters": ((LSP + "test_framing.py", "test_frames_come_whole_however_they_are_cut"),),
    "params of the wrong type get no answer": (
        (SERVER, "test_a_wrong_field_is_named"),
        (MALFORMED, "test_bad_bodies_are_answered"),
    ),
    "a request without params gets no answer": ((REQUESTS, "test_params_may_be_left_out_or_null"),),
    "data with a key `jsonrpc` is lost": ((REQUESTS, "test_nested_jsonrpc_is_data"),),
    "wrong arguments of a command give a riddle": ((REQUESTS, "test_a_command_takes_one_object_and_nothing_else"),),
    "headers in another case are waited for for ever": ((MALFORMED, "test_headers_that_are_taken"),),
    "a restart while a run goes on loses the panel": ((VSCODE + "robust.mjs", "restart"),),
    "a second client takes the first one's output": ((WIRE + "test_tcp.py", "test_one_client_with_the_secret"),),
    "folders null, empty or absent; removed and added at once": (
        (SERVER, "test_folders_at_start"),
        (SERVER, "test_folders_come_and_go_in_order"),
    ),
    "two spellings of one folder have two hosts": (("tests/unit/protocol/test_uris.py", "test_all_spellings_are_one"),),
    "places are off behind characters of two units": ((DOCUMENTS, "test_every_place_of_a_line_can_be_named"),),
    "there are no watches left": ((WATCH, "test_without_watches_it_looks_regularly_and_says_so_once"),),
    "a folder that was removed and made again is watched in vain": (
        (WATCH, "test_the_whole_folder_is_removed_and_made_again"),
    ),
    "renames and replacements are missed": ((WATCH, "test_files_that_are_replaced_cut_touched_and_gone_in_a_blink"),),
    "own writes come back as changes": (
        (WATCH, "test_own_writes_cause_nothing"),
        (WINDOWS, "test_own_writes_raise_nothing"),
    ),
    "seconds until initialize is answered": (("tests/contract/test_layers.py", "test_version_imports_nothing_heavy"),),
    "a line that a crash tore swallows the next": (
        ("tests/faults/test_damage.py", "test_cut_append_and_open_again"),
        (WINDOWS, "test_a_dead_writers_torn_line_is_mended_by_the_next_append"),
    ),
    "two windows write one session, and a branch is gone": (
        (WINDOWS, "test_a_race_becomes_two_branches_and_both_know"),
        ("tests/faults/test_killed.py", "test_writers_and_readers_at_once"),
    ),
    "a call without a result makes the history unusable": (
        (SESSIONS + "test_store.py", "test_an_unanswered_call_is_answered_in_the_view_and_stored_with_the_next_turn"),
    ),
    "a lock is never let go": ((SESSIONS + "test_refusals.py", "test_a_lock_that_is_never_let_go_is_told"),),
    "the order of initialize and shutdown is not kept": ((LIFE, "test_the_order_of_life_is_kept"),),
    "trust that was withdrawn still lets something run": (
        ("tests/unit/workspace/test_trust.py", "test_an_answer_that_comes_after_trust_was_withdrawn_allows_nothing"),
    ),
}
