//! Each guarantee against each engine.

macro_rules! guarantees {
    ($($module:ident: $($name:ident),+;)+) => {
        mod memory {
            $($(#[tokio::test]
            async fn $name() {
                super::super::$module::$name(super::super::world::World::in_memory()).await;
            })+)+
        }

        mod sqlite {
            $($(#[tokio::test]
            async fn $name() {
                super::super::$module::$name(super::super::world::World::in_sqlite().await).await;
            })+)+
        }

        #[cfg(feature = "postgres")]
        mod postgres {
            $($(#[tokio::test]
            async fn $name() {
                let Some((world, schema)) = super::super::postgres::world().await else { return };
                super::super::$module::$name(world).await;
                schema.drop().await;
            })+)+
        }
    };
}

guarantees! {
    credentials:
        a_credential_authenticates_until_it_is_revoked,
        a_name_is_taken_until_its_credential_is_revoked,
        both_secrets_work_until_the_overlap_ends,
        an_expired_credential_is_nobody,
        a_rotation_of_nobody_changes_nothing;
    log:
        a_report_is_the_logs_next_event_and_its_tasks_next_version,
        opaque_json_comes_out_byte_for_byte,
        a_terminal_status_is_final,
        a_task_stays_in_its_first_queue,
        a_task_is_its_latest_snapshot,
        the_same_key_and_body_get_the_first_answer,
        the_same_key_with_another_body_is_refused,
        a_keys_scope_is_credential_and_task,
        a_key_is_forgotten_after_a_day_and_not_before,
        the_same_key_sent_at_once_is_written_once,
        a_refused_report_leaves_no_key,
        a_batch_gets_one_verdict_a_report_in_order;
    subscriptions:
        a_subscription_shows_its_settings,
        a_subscription_begins_where_it_says,
        a_list_has_ones_own_in_pages,
        another_credentials_subscription_is_not_there,
        pause_and_resume_hold_however_often,
        seek_starts_afresh_with_new_deliveries,
        a_deleted_subscription_is_gone,
        figures_follow_every_step;
    leases:
        only_wanted_events_are_delivered,
        rare_events_are_found_behind_many_others,
        several_queues_are_read_in_the_logs_order,
        a_full_window_stops_its_own_subscription_alone,
        free_credit_decides_and_ties_go_to_the_older,
        no_session_ever_has_more_than_its_capacity,
        a_live_lease_is_never_taken,
        a_lapsed_delivery_comes_again_after_its_backoff,
        a_delivery_expires_after_exactly_its_budget,
        added_budget_makes_expired_deliveries_ready,
        a_paused_subscription_leases_nothing_and_uses_no_budget,
        a_window_of_expired_deliveries_is_said_to_be_blocked,
        nothing_is_leased_for_a_credential_that_is_nobodys_any_more,
        one_call_grants_a_bounded_number_and_says_so,
        the_next_chance_is_named;
    proofs:
        a_proof_confirms_once_and_is_replayed_after,
        a_superseded_proof_is_lost,
        a_wrong_secret_and_a_generation_never_leased_are_invalid,
        a_proof_confirms_after_its_lease_and_its_budget,
        a_proof_of_another_subscription_is_lost,
        a_confirmed_proof_is_replayed_for_a_day,
        a_confirmed_delivery_is_listed_for_as_long_where_it_is_asked_for,
        one_of_two_simultaneous_proofs_confirms,
        a_revoked_or_unfit_credential_confirms_nothing,
        a_session_stands_as_its_credential_does;
    upkeep:
        a_sweep_keeps_the_schedule_without_any_session,
        a_sweep_takes_events_for_idle_subscriptions,
        every_lapse_is_told_once_whoever_ended_it,
        a_subscription_that_is_blocked_again_is_told_again,
        the_next_wakeup_is_the_next_lapse,
        whatever_may_let_a_lease_succeed_wakes,
        the_figures_count_everything,
        a_closed_store_answers_nothing;
    retention:
        events_go_by_count_and_by_age,
        a_lagging_subscription_keeps_the_log,
        told_so_retention_leaves_a_gap_that_a_seek_mends,
        earliest_is_the_oldest_event_left,
        what_is_still_needed_of_a_forgotten_event_stays;
}
