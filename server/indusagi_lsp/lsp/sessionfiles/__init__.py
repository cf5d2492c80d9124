"""Session files as a language: an editor that opens one sees a conversation, not a wall of JSON.

`facts` says what a line holds, `index` what the lines hold together, `answers` what the editor is told, `render` how a
turn reads; `language` ties them to the documents. Imported when the first session file is opened.
"""
