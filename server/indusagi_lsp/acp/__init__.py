"""The second face of the server: the Agent Client Protocol, for editors that host agents in a panel of their own.

The same hosts, sessions and gate stand behind it as behind the language server. Only this package imports the
protocol's SDK (extra `acp`), and nothing here knows of LSP.
"""
