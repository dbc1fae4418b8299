//! Somebody else's services, played by the example itself: a bank that takes payments and reports to the platform how they
//! went, and a mail server.

use actix_web::{HttpRequest, HttpResponse, Responder, web};
use serde::Deserialize;
use serde_json::json;

use crate::platform::QUEUE;

/// What the shop asks of the bank.
#[derive(Deserialize)]
pub(crate) struct Payment {
    order: String,
    cents: u32,
}

/// The platform, as the bank knows it.
#[derive(Clone)]
pub(crate) struct Reports {
    pub(crate) url: String,
    pub(crate) credential: String,
}

fn key(request: &HttpRequest) -> Option<String> {
    Some(request.headers().get("idempotency-key")?.to_str().ok()?.to_owned())
}

/// `POST /bank`: takes up to 100.00 and refuses more, and reports it. The same request under the same idempotency key, which
/// a relay may send more than once, is one report.
pub(crate) async fn pay(
    request: HttpRequest,
    payment: web::Json<Payment>,
    reports: web::Data<Reports>,
) -> impl Responder {
    let Some(key) = key(&request) else { return HttpResponse::BadRequest().finish() };
    let status = if payment.cents <= 10_000 { "succeeded" } else { "rejected" };
    let report = json!({"operation": "TakePayment", "status": status, "result": {"cents": payment.cents}});
    let url = format!("{}/v1/queues/{QUEUE}/tasks/{}/events", reports.url, payment.order);
    let answer = awc::Client::default()
        .post(url)
        .bearer_auth(&reports.credential)
        .insert_header(("idempotency-key", key))
        .send_json(&report)
        .await;
    match answer {
        Ok(answer) if answer.status().is_success() => HttpResponse::NoContent().finish(),
        // The relay comes again.
        _ => HttpResponse::ServiceUnavailable().finish(),
    }
}

/// `POST /mail`: prints what it would send.
pub(crate) async fn mail(request: HttpRequest, text: String) -> impl Responder {
    println!("mail {}: {text}", key(&request).unwrap_or_default());
    HttpResponse::NoContent()
}
