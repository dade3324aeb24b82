"""Real kimi-cli releases, a scripted model for them, and the cases they are put through."""
