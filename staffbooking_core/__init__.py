"""The core of staffbooking."""
