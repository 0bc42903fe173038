# Headers, libraries, tutti.pc, tuttiConfig.cmake and the programs.
