"""The byte layer: framing, reader and writer threads, back-pressure, and every way to end.

It knows frames and file descriptors, nothing of what is in a message. pygls keeps dispatch and types; its own
streams are not used, because they read on the pool that runs handlers, write on the event loop, and leave bad
input unanswered.
"""
