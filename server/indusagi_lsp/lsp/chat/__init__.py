"""Chat documents (`*.chat.md`): a conversation in any editor, as a Markdown file.

`text` knows how such a document is written, `answer` brings an answer into it while it comes, `chats` ties them to the
sessions, `helps` offers lenses, links and completion, `asking` answers what code actions ask.
"""
