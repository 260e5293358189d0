"""The real-time channel: one switchboard a process, and the ways in to it (CONTRACT 6)."""

__all__ = ["frames", "handshake", "hub", "socketio", "uvicorn_protocol", "websocket"]
