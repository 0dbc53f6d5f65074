// SPDX-FileCopyrightText: The Leat Authors
// SPDX-License-Identifier: Apache-2.0

// Package journal keeps the record of every change of the catalog, and of every call that was
// refused one.
//
// # Promises
//
// A change and its record are stored in one transaction, so that neither exists without the other.
// Before the transaction is committed, the record is written to the outputs of the audit log. If
// they fail closed and do not take it, nothing is changed. If the commit then fails, an outcome in
// the audit log records it. Edits follow one another, so an output that hangs holds them up once:
// later ones find that it has failed, and wait for it before they begin.
//
// Refused calls, and API tokens that are exchanged for access tokens, have records outside of a
// transaction. If one cannot be written, the log of the service reports it, and the caller's answer
// is the same. One person's refused calls are damped, as [audit.Damper] does it, and the exchange of
// one token from one address is recorded once an hour. Strangers can have sign-ins refused, so these
// are damped together: for each provider and reason, [refusedSignIns] an hour have records of their
// own.
//
// No record holds a secret. The size of a record, and the sum over all records of an edit, are
// bounded.
//
// # What it does not do
//
// It does not decide who may read records, and keeps none in memory.
package journal

import (
	"cmp"
	"context"
	"fmt"
	"log/slog"
	"math/rand/v2"
	"net"
	"time"

	lru "github.com/hashicorp/golang-lru/v2"

	"github.com/leatdev/leat/internal/contract/objectname"
	"github.com/leatdev/leat/internal/contract/reason"
	"github.com/leatdev/leat/internal/runtime/audit"
	"github.com/leatdev/leat/services/distributor/internal/spine/catalog"
)

const (
	// signInEvery is how often the exchange of one API token from one address is recorded.
	signInEvery = time.Hour
	// maxSignIns bounds the tokens and addresses that are remembered. One that was forgotten is
	// recorded again.
	maxSignIns = 4096
	// refusedSignIns are the refused sign-ins of one provider, or enrolments with one bootstrap token,
	// for one reason, that have records of their own within refusedSignInsEvery.
	refusedSignIns      = 20
	refusedSignInsEvery = time.Hour
	// pruneEvery is how often old records are looked for, give or take a quarter, and pruneStep how
	// many are deleted in one transaction.
	pruneEvery, pruneStep = time.Hour, 1000
	// keepTimeout bounds the storing of a record outside of a change.
	keepTimeout = 5 * time.Second
)

// MaxLooked bounds the records that one [Store.Find] looks through.
const MaxLooked = 20_000

// Store keeps records in SQL. It is safe for concurrent use. Its errors match
// catalog.ErrUnavailable, or are the context's.
type Store interface {
	// Keep stores records in a transaction of their own, under the next numbers.
	Keep(ctx context.Context, records []*audit.Record) error
	// Find returns the records that a query selects.
	Find(ctx context.Context, q Query) (Page, error)
	// Prune deletes at most limit records that were made before that time, the oldest first, and
	// returns how many.
	Prune(ctx context.Context, before time.Time, limit int) (int, error)
	// Reach returns the time from which on no record was deleted. It is the time of the first record
	// if none ever was, and zero if there are no records.
	Reach(ctx context.Context) (time.Time, error)
}

// Query selects records. Zero fields select nothing, except for Limit, which is required.
type Query struct {
	Since, Until time.Time
	Subject      string
	// Token is the token of the call, or what it was issued for.
	Token string
	// Claims select records that hold all of them, by name.
	Claims                    map[string]string
	Kind, Name, Cluster, Verb string
	// Kinds selects records of any of them.
	Kinds []string
	// RPC is the name of the call without its service.
	RPC       string
	Outcome   string
	RequestID string
	// Before selects records with smaller numbers, the newest first. After selects those with larger
	// numbers, the oldest first. At most one of them is set; with none the newest come first.
	Before, After int64
	Limit         int
}

// Page is the result of a query within [MaxLooked] records.
type Page struct {
	Entries []Entry
	// Next is the Before of the next page, or zero on the last one; with After it is the next After.
	Next int64
	// Latest is the number of the latest record of all.
	Latest int64
}

// Outputs are the outputs of the audit log; [auditout.Outputs] implements it.
type Outputs interface {
	audit.Sink
	// WriteAll writes records of which each must be written before anything is done.
	WriteAll(ctx context.Context, records []*audit.Record) error
	// Failing returns why an output did not write its last record although it fails closed, or nil.
	Failing() error
	// Withdraw notes that written records stand for changes that were not made.
	Withdraw(records []*audit.Record)
}

// Params are the arguments of [New], all required.
type Params struct {
	Store   Store
	Outputs Outputs
	// Describe returns the document of an object, a token, a bootstrap token or a session as JSON, without
	// its secrets.
	Describe func(object any) ([]byte, error)
	// Retention is how long records are kept.
	Retention time.Duration
	Logger    *slog.Logger
}

// Journal makes and writes records. It is safe for concurrent use.
type Journal struct {
	params  Params
	damper  *audit.Damper
	refused *audit.Damper // of sign-ins and enrolments
	signIns *lru.Cache[signIn, time.Time]
}

// signIn holds the recorded facts of the exchange of a token: the credential, and for a workload
// the token that it showed.
type signIn struct{ credential, token, audience, host string }

// New returns a journal.
func New(p Params) *Journal {
	j := &Journal{params: p}
	j.damper = audit.NewDamper(both{j}, p.Logger)
	j.refused = audit.NewDamperOf(strangers{both{j}}, p.Logger, audit.Damping{Each: refusedSignIns, Every: refusedSignInsEvery, Key: func(r *audit.Record) string {
		return r.Attributes.Name + " " + r.Reason.String()
	}})
	j.signIns, _ = lru.New[signIn, time.Time](maxSignIns) // fails only for a limit that is not positive
	return j
}

// Close writes the summaries of refused calls that are not written yet.
func (j *Journal) Close() {
	j.damper.Close()
	j.refused.Close()
}

// Records returns the records of what one edit changed, in its order. A change whose document
// cannot be made leaves a record without fields.
func (j *Journal) Records(ctx context.Context, changes []catalog.Change) []*audit.Record {
	origin, at := catalog.OriginOf(ctx), catalog.Now()
	if origin.RequestID == "" { // the hub's own: one edit is one call
		origin.RequestID = audit.NewID()
	}
	records := make([]*audit.Record, len(changes))
	budget := min(maxFields, maxEdit/max(len(changes), 1))
	for i, change := range changes {
		r := recordOf(origin, catalog.Target{Verb: change.Verb, Kind: change.Kind, Name: shownName(change.Kind, change.Name), Cluster: objectname.Display(change.Cluster)}, at)
		r.Phase, r.Allowed = audit.PhaseChange, true
		r.Change.ObjectUID = change.UID
		fields, omitted, err := j.fields(change, budget)
		if err != nil {
			j.params.Logger.ErrorContext(ctx, "fields of an audit record left out", slog.String("id", r.ID), slog.Any("error", err))
		}
		r.Change.Fields, r.Change.Omitted = fields, omitted
		records[i] = r
	}
	return records
}

func (j *Journal) fields(change catalog.Change, budget int) (fields []audit.FieldChange, omitted int, err error) {
	before, err := j.describe(change.Before)
	if err != nil {
		return nil, 0, err
	}
	after, err := j.describe(change.After)
	if err != nil {
		return nil, 0, err
	}
	return fieldsOf(before, after, change.SecretChanges(), budget)
}

// shownName returns the name of an object as people write it: with its project, unless that is the
// default one. That of a service has no cluster, because the record has a field for it.
func shownName(kind, name string) string {
	if catalog.Kind(kind).InProject() {
		return objectname.Display(objectname.LocalPath(name))
	}
	return name
}

// describe returns nil for an object that does not exist.
func (j *Journal) describe(object any) ([]byte, error) {
	if object == nil {
		return nil, nil
	}
	return j.params.Describe(object)
}

// Ready blocks until the outputs of the audit log take records, as far as is known. While they work it
// returns at once. After a failure it writes the decision that the call of ctx may be carried out, and
// waits for that, so that the edit need not wait for an output that hangs while it holds the lock of
// edits. The error matches catalog.ErrUnrecorded: the edit must not begin.
func (j *Journal) Ready(ctx context.Context) error {
	if j.params.Outputs.Failing() == nil {
		return nil
	}
	origin := catalog.OriginOf(ctx)
	r := recordOf(origin, origin.Asked, catalog.Now())
	r.Phase, r.Allowed = audit.PhaseDecision, true
	if err := j.params.Outputs.Write(ctx, r); err != nil {
		return fmt.Errorf("%w: %w", catalog.ErrUnrecorded, err)
	}
	return nil
}

// Write hands the records of an edit to the audit log. It refuses them at once if an output has failed
// since [Journal.Ready]. The error matches catalog.ErrUnrecorded.
func (j *Journal) Write(ctx context.Context, records []*audit.Record) error {
	if err := j.params.Outputs.Failing(); err != nil {
		return fmt.Errorf("%w: %w", catalog.ErrUnrecorded, err)
	}
	if err := j.params.Outputs.WriteAll(ctx, records); err != nil {
		return fmt.Errorf("%w: %w", catalog.ErrUnrecorded, err)
	}
	return nil
}

// Withdraw notes in the audit log that an edit was not committed.
func (j *Journal) Withdraw(records []*audit.Record) { j.params.Outputs.Withdraw(records) }

// Refuse records a call that was refused.
func (j *Journal) Refuse(ctx context.Context, origin catalog.Origin, why reason.Reason) {
	r := recordOf(origin, origin.Asked, catalog.Now())
	r.Phase, r.Reason = audit.PhaseDecision, why
	_ = j.damper.Write(ctx, r) // both logs its errors
}

// Use records that a caller is about to read something, in SQL and in the audit log. The error matches
// catalog.ErrUnrecorded: nothing must be read then.
func (j *Journal) Use(ctx context.Context, origin catalog.Origin) error {
	asked := origin.Asked
	asked.Kind = catalog.RecordCall // nothing was changed
	r := recordOf(origin, asked, catalog.Now())
	r.Phase, r.Allowed = audit.PhaseDecision, true
	if err := (both{j}).Write(ctx, r); err != nil {
		return fmt.Errorf("%w: %w", catalog.ErrUnrecorded, err)
	}
	return nil
}

// SignIn records that an API token was exchanged for an access token for one service of the hub.
func (j *Journal) SignIn(ctx context.Context, origin catalog.Origin, audience string) {
	j.signIn(ctx, origin, audience, "")
}

// Exchange records that a workload exchanged a token, known by its hash, for an access token for one
// service of the hub.
func (j *Journal) Exchange(ctx context.Context, origin catalog.Origin, audience, token string) {
	j.signIn(ctx, origin, audience, token)
}

func (j *Journal) signIn(ctx context.Context, origin catalog.Origin, audience, token string) {
	at := catalog.Now()
	host, _, err := net.SplitHostPort(origin.SourceAddress)
	if err != nil {
		host = origin.SourceAddress
	}
	key := signIn{credential: origin.Credential, token: token, audience: audience, host: host}
	if last, ok := j.signIns.Get(key); ok && at.Sub(last) < signInEvery {
		return
	}
	j.signIns.Add(key, at)
	r := recordOf(origin, catalog.Target{Verb: catalog.VerbCreate, Kind: catalog.RecordAccessToken, Name: audience}, at)
	r.Phase, r.Allowed = audit.PhaseChange, true
	_ = both{j}.Write(ctx, r)
}

// RefuseSignIn records that an identity provider, or the hub, did not sign a person in. provider is
// the name of a provider of the catalog, or empty. The origin has no subject unless the provider has
// confirmed who the person is.
func (j *Journal) RefuseSignIn(ctx context.Context, origin catalog.Origin, provider string, why reason.Reason) {
	r := recordOf(origin, catalog.Target{Verb: catalog.VerbCreate, Kind: string(catalog.KindSession), Name: provider}, catalog.Now())
	r.Phase, r.Reason = audit.PhaseDecision, why
	_ = j.refused.Write(ctx, r) // both logs its errors
}

// RefuseEnrolment records that a bootstrap token, named by its id, did not enrol an agent.
func (j *Journal) RefuseEnrolment(ctx context.Context, origin catalog.Origin, token string, why reason.Reason) {
	r := recordOf(origin, catalog.Target{Verb: catalog.VerbEnrol, Kind: catalog.RecordBootstrapToken, Name: token}, catalog.Now())
	r.Phase, r.Reason = audit.PhaseDecision, why
	_ = j.refused.Write(ctx, r) // both logs its errors
}

// both writes a record outside of a change into SQL and into the audit log.
type both struct{ journal *Journal }

// Write implements audit.Sink. Each failure is logged; the error is the first.
func (b both) Write(ctx context.Context, record *audit.Record) error {
	ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), keepTimeout)
	defer cancel()
	stored := b.journal.params.Store.Keep(ctx, []*audit.Record{record})
	written := b.journal.params.Outputs.Write(ctx, record)
	for where, err := range map[string]error{"database": stored, "audit log": written} {
		if err != nil {
			b.journal.params.Logger.ErrorContext(ctx, "audit record not written", slog.String("to", where),
				slog.String("subject", record.Subject), slog.Any("error", err))
		}
	}
	return cmp.Or(stored, written)
}

// strangers writes records of refused sign-ins. A summary stands for several callers, so it names
// none of them.
type strangers struct{ both }

// Write implements audit.Sink.
func (s strangers) Write(ctx context.Context, record *audit.Record) error {
	if record.Phase == audit.PhaseSummary {
		record.Subject, record.SourceAddress, record.UserAgent = catalog.HubSubject, "", ""
	}
	return s.both.Write(ctx, record)
}

// Find returns the records that a query selects.
func (j *Journal) Find(ctx context.Context, q Query) (Page, error) {
	return j.params.Store.Find(ctx, q)
}

// Reach returns the time from which on every record is kept; zero: there are no records.
func (j *Journal) Reach(ctx context.Context) (time.Time, error) { return j.params.Store.Reach(ctx) }

// Run deletes old records until ctx ends.
func (j *Journal) Run(ctx context.Context) error {
	for {
		j.prune(ctx)
		wait := pruneEvery*3/4 + rand.N(pruneEvery/2)
		timer := time.NewTimer(wait)
		select {
		case <-ctx.Done():
			timer.Stop()
			return ctx.Err()
		case <-timer.C:
		}
	}
}

func (j *Journal) prune(ctx context.Context) {
	for ctx.Err() == nil {
		n, err := j.params.Store.Prune(ctx, time.Now().Add(-j.params.Retention), pruneStep)
		if err != nil {
			if ctx.Err() == nil {
				j.params.Logger.WarnContext(ctx, "old audit records not deleted", slog.Any("error", err))
			}
			return
		}
		if n < pruneStep {
			return
		}
	}
}
