"""The simulation of the whole system: servers, workers, clients, the processor and receivers."""
