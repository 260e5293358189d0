"""The real-time channel: one hub per process, and its transports (CONTRACT 6)."""

__all__ = ["frames", "handshake", "hub", "socketio_loader", "uvicorn_protocol", "websocket"]
