// For the console: what the page holds, such as vramscope[0].state.h.
window.vramscope = devices;
main();
