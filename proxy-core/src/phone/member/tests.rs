//! Every state and event of the drawing.
