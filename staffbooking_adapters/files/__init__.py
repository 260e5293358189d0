"""File storages: a folder of this machine, or one that several machines share."""
