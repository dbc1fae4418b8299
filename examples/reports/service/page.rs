//! The page's files, built into the program, and the headers that keep anything else out.

use actix_web::http::header::{
    CACHE_CONTROL, CONTENT_SECURITY_POLICY, REFERRER_POLICY, X_CONTENT_TYPE_OPTIONS, X_FRAME_OPTIONS,
};
use actix_web::middleware::DefaultHeaders;
use actix_web::{HttpResponse, web};

/// Own files alone, no inline script or style, no markup from strings, nobody's frame.
const POLICY: &str = "default-src 'none'; script-src 'self'; style-src 'self'; img-src 'self'; connect-src 'self'; \
                      form-action 'self'; base-uri 'none'; frame-ancestors 'none'; require-trusted-types-for 'script'";

const HTML: &str = "text/html; charset=utf-8";
const SCRIPT: &str = "text/javascript; charset=utf-8";

/// A path, its type and its text. What `tsc` makes of `page/src` lies in `page/built`.
const FILES: [(&str, &str, &str); 11] = [
    ("/", HTML, include_str!("../page/index.html")),
    // A report's own address, to be shared: the script reads which.
    ("/reports/{id}", HTML, include_str!("../page/index.html")),
    ("/style.css", "text/css; charset=utf-8", include_str!("../page/style.css")),
    ("/icon.svg", "image/svg+xml", include_str!("../page/icon.svg")),
    ("/app.js", SCRIPT, include_str!("../page/built/app.js")),
    ("/calls.js", SCRIPT, include_str!("../page/built/calls.js")),
    ("/element.js", SCRIPT, include_str!("../page/built/element.js")),
    ("/report.js", SCRIPT, include_str!("../page/built/report.js")),
    ("/operations/index.js", SCRIPT, include_str!("../page/built/operations/index.js")),
    ("/operations/generate-report.js", SCRIPT, include_str!("../page/built/operations/generate-report.js")),
    ("/operations/runtime.js", SCRIPT, include_str!("../page/built/operations/runtime.js")),
];

pub(crate) fn files(config: &mut web::ServiceConfig) {
    for (path, content_type, text) in FILES {
        let answer = move || async move {
            HttpResponse::Ok().insert_header((CACHE_CONTROL, "no-cache")).content_type(content_type).body(text)
        };
        config.route(path, web::get().to(answer));
    }
}

/// On every answer, whatever it is.
pub(crate) fn security_headers() -> DefaultHeaders {
    DefaultHeaders::new()
        .add((CONTENT_SECURITY_POLICY, POLICY))
        .add((X_CONTENT_TYPE_OPTIONS, "nosniff"))
        .add((X_FRAME_OPTIONS, "DENY"))
        .add((REFERRER_POLICY, "no-referrer"))
}
