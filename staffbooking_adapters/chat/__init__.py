"""Broadcasts between the processes of a deployment.

local   within one process, for SQLite
shared  between processes, over a transport: PostgreSQL (`sql/messaging/pubsub.py`) or Redis
redis   the Redis transport
"""
