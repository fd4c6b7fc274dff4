//! The pages in `docs/` as doctests: their code blocks compile and run.

macro_rules! guides {
    ($($name:ident: $page:literal),* $(,)?) => {
        $(
            #[doc = include_str!(concat!("../../../docs/", $page))]
            struct $name;
        )*
    };
}

guides! {
    Algorithms: "algorithms.md",
    Failure: "failure.md",
    Headers: "headers.md",
    Keys: "keys.md",
    Memory: "memory.md",
    SeveralLimits: "several-limits.md",
    Start: "start.md",
    Waiting: "waiting.md",
}
