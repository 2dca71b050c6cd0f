//! The attribute `#[caught]`, for what Python calls in the extension module.
//!
//! It is not about what Python sees of a function, which is pyo3's part: it goes above
//! `#[pymethods]` and `#[pyfunction]`. It is a macro since a call in each body could be forgotten in
//! one of them, and no parser is needed to find the bodies.

use proc_macro::{Delimiter, Group, Ident, Punct, Spacing, Span, TokenStream, TokenTree};

/// Runs the body of every function that returns a `PyResult` within `crate::door::caught`.
#[proc_macro_attribute]
pub fn caught(_arguments: TokenStream, item: TokenStream) -> TokenStream {
    wrap_bodies(item)
}

/// Where in a function a token is.
#[derive(Clone, Copy, PartialEq)]
enum Place {
    /// In none.
    Outside,
    /// Between `fn` and its body.
    Signature,
    /// The same, of a function that returns a `PyResult`.
    Fallible,
}

fn wrap_bodies(tokens: TokenStream) -> TokenStream {
    let mut place = Place::Outside;
    let mut wrap = |token: TokenTree| match token {
        TokenTree::Ident(word) => {
            match (place, word.to_string().as_str()) {
                (Place::Outside, "fn") => place = Place::Signature,
                // Arguments are a group of their own: this is what it returns.
                (Place::Signature, "PyResult") => place = Place::Fallible,
                _ => {}
            }
            TokenTree::Ident(word)
        }
        TokenTree::Group(group) if group.delimiter() == Delimiter::Brace => {
            let inner = match place {
                Place::Outside => wrap_bodies(group.stream()),
                Place::Signature => group.stream(),
                Place::Fallible => within_door(group.clone()),
            };
            place = Place::Outside;
            let mut wrapped = Group::new(Delimiter::Brace, inner);
            wrapped.set_span(group.span());
            TokenTree::Group(wrapped)
        }
        other => other,
    };
    tokens.into_iter().map(&mut wrap).collect()
}

/// `crate::door::caught(|| body)`.
fn within_door(body: Group) -> TokenStream {
    let word = |text: &str| TokenTree::Ident(Ident::new(text, Span::call_site()));
    let sign = |sign: char, spacing| TokenTree::Punct(Punct::new(sign, spacing));
    let path_sign = || [sign(':', Spacing::Joint), sign(':', Spacing::Alone)];
    let closure = [sign('|', Spacing::Joint), sign('|', Spacing::Alone), TokenTree::Group(body)];
    let arguments = Group::new(Delimiter::Parenthesis, closure.into_iter().collect());
    let mut call = TokenStream::new();
    call.extend([word("crate")]);
    call.extend(path_sign());
    call.extend([word("door")]);
    call.extend(path_sign());
    call.extend([word("caught"), TokenTree::Group(arguments)]);
    call
}
