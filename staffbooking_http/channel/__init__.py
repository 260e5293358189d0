"""The real-time channel: one hub per process, and its transports (CONTRACT 6)."""

__all__ = ["frames", "handshake", "hub", "socketio", "uvicorn_protocol", "websocket"]
