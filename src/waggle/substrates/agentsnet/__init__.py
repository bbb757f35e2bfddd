"""AgentsNet and AgentsNet-RP: five graph problems under a synchronous round budget."""
