"""Word between the processes of a deployment.

local   within one process: all that SQLite needs
shared  between processes, over a wire: PostgreSQL's (`sql/wire.py`) or that of Redis
redis   the wire of Redis
"""
