// SPDX-FileCopyrightText: The Leat Authors
// SPDX-License-Identifier: Apache-2.0

package people

import (
	"cmp"
	"context"
	"fmt"
	"strconv"
	"strings"

	"google.golang.org/protobuf/encoding/protojson"
	"google.golang.org/protobuf/proto"

	errorsv1 "github.com/leatdev/leat/gen/go/leat/errors/v1"
	fleetv1 "github.com/leatdev/leat/gen/go/leat/fleet/v1"
	"github.com/leatdev/leat/internal/contract/enumname"
	"github.com/leatdev/leat/internal/contract/objectname"
	"github.com/leatdev/leat/internal/runtime/audit"
	"github.com/leatdev/leat/internal/runtime/rpcerr"
	"github.com/leatdev/leat/services/distributor/internal/api/codec"
	"github.com/leatdev/leat/services/distributor/internal/api/wire"
	"github.com/leatdev/leat/services/distributor/internal/fleet"
	"github.com/leatdev/leat/services/distributor/internal/spine/catalog"
	"github.com/leatdev/leat/services/distributor/internal/spine/catalogwire"
	"github.com/leatdev/leat/services/distributor/internal/spine/journal"
)

// Bounds of a listing of records.
const (
	defaultRecords = 100
	maxRecords     = 1000
	// maxFilter bounds each text that selects records, in bytes. Records hold no longer ones.
	maxFilter = 1 << 10
	// maxClaims bounds the claims that select records.
	maxClaims = 8
)

// ListAuditRecords implements FleetService. A page's token is the number of its last record.
func (s *Service) ListAuditRecords(ctx context.Context, req *fleetv1.ListAuditRecordsRequest) (*fleetv1.ListAuditRecordsResponse, error) {
	if err := s.atHub(ctx); err != nil {
		return nil, err
	}
	q, err := queryOf(req)
	if err != nil {
		return nil, err
	}
	page, err := s.d.Audit.Find(ctx, q)
	if err != nil {
		return nil, wire.Error(err)
	}
	res := &fleetv1.ListAuditRecordsResponse{Records: wire.Each(page.Entries, entryMessage), After: page.Latest}
	switch {
	case q.After > 0:
		res.After = page.Next
	case page.Next > 0:
		res.NextPageToken = strconv.FormatInt(page.Next, 10)
	}
	return res, nil
}

// queryOf validates a request.
func queryOf(req *fleetv1.ListAuditRecordsRequest) (journal.Query, error) {
	for field, text := range map[string]string{
		"subject": req.GetSubject(), "token": req.GetToken(), "kind": req.GetKind(), "name": req.GetName(), "cluster": req.GetCluster(),
		"verb": req.GetVerb(), "rpc": req.GetRpc(), "outcome": req.GetOutcome(), "request_id": req.GetRequestId(),
	} {
		if len(text) > maxFilter {
			return journal.Query{}, rpcerr.Field(field, fmt.Sprintf("has %d bytes; at most %d are allowed", len(text), maxFilter))
		}
	}
	q := journal.Query{
		Since: catalogwire.TimeOf(req.GetSince()), Until: catalogwire.TimeOf(req.GetUntil()),
		Subject: req.GetSubject(), Token: req.GetToken(), Kind: req.GetKind(), Name: req.GetName(), Cluster: req.GetCluster(),
		Verb: req.GetVerb(), RPC: req.GetRpc(), Outcome: strings.ToUpper(req.GetOutcome()), RequestID: req.GetRequestId(),
		After: req.GetAfter(), Limit: min(cmp.Or(int(req.GetPageSize()), defaultRecords), maxRecords),
	}
	if q.Kind == string(catalog.KindService) {
		if err := splitService(&q); err != nil {
			return q, err
		}
	}
	claims, err := claimsOf(req.GetClaims())
	if err != nil {
		return q, err
	}
	q.Claims = claims
	switch {
	case req.GetSince() != nil && req.GetSince().CheckValid() != nil:
		return q, rpcerr.Field("since", "is not a valid time")
	case req.GetUntil() != nil && req.GetUntil().CheckValid() != nil:
		return q, rpcerr.Field("until", "is not a valid time")
	case req.GetPageSize() < 0:
		return q, rpcerr.Field("page_size", "is negative")
	case q.After < 0:
		return q, rpcerr.Field("after", "is negative")
	case q.After > 0 && req.GetPageToken() != "":
		return q, rpcerr.Field("after", "excludes page_token")
	case !isOutcome(q.Outcome):
		return q, rpcerr.Field("outcome", "must be OK, REFUSED or the name of a reason, such as ACCESS_DENIED")
	}
	if token := req.GetPageToken(); token != "" {
		before, err := strconv.ParseInt(token, 10, 64)
		if err != nil || before <= 0 {
			return q, rpcerr.Field("page_token", "is not a token that a listing returned")
		}
		q.Before = before
	}
	return q, nil
}

// splitService turns the name of a service with its cluster into two conditions: records have a field for
// each.
func splitService(q *journal.Query) error {
	path, _ := objectname.ParseService("name", q.Name, objectname.Default) // a text of another form is compared as it is
	local, cluster := objectname.SplitService(path)
	if cluster == "" {
		return nil
	}
	if shown := objectname.Display(cluster); q.Cluster == "" || q.Cluster == shown {
		q.Name, q.Cluster = objectname.Display(local), shown
		return nil
	}
	return rpcerr.Field("cluster", fmt.Sprintf("%q is not the cluster of the service %q", q.Cluster, q.Name))
}

// claimsOf reads conditions NAME=VALUE.
func claimsOf(texts []string) (map[string]string, error) {
	if len(texts) > maxClaims {
		return nil, rpcerr.Field("claims", fmt.Sprintf("has %d items; at most %d are allowed", len(texts), maxClaims))
	}
	claims := make(map[string]string, len(texts))
	for i, text := range texts {
		field := fmt.Sprintf("claims[%d]", i)
		name, value, ok := strings.Cut(text, "=")
		switch {
		case len(text) > maxFilter:
			return nil, rpcerr.Field(field, fmt.Sprintf("has %d bytes; at most %d are allowed", len(text), maxFilter))
		case !ok || name == "" || strings.ContainsAny(text, "\n\x00"):
			return nil, rpcerr.Field(field, "must be NAME=VALUE, such as repository=acme/shop")
		}
		if other, has := claims[name]; has && other != value {
			return nil, rpcerr.Field(field, "names a claim that another item names, too; a record has one value of each")
		}
		claims[name] = value
	}
	return claims, nil
}

func isOutcome(name string) bool {
	_, isReason := errorsv1.Reason_value["REASON_"+name]
	return name == "" || name == journal.OutcomeOK || name == journal.OutcomeRefused || isReason
}

func entryMessage(e journal.Entry) *fleetv1.AuditRecord {
	return &fleetv1.AuditRecord{
		Sequence: e.Sequence, Id: e.ID, RequestId: e.RequestID, TraceId: e.TraceID, Time: catalogwire.Timestamp(e.Time),
		Subject: e.Subject, SubjectUid: e.SubjectUID, TokenId: e.TokenID, Credential: e.Credential,
		SourceAddress: e.SourceAddress, UserAgent: e.UserAgent, Procedure: e.Procedure,
		Verb: e.Verb, Kind: e.Kind, Name: e.Name, Cluster: e.Cluster, ObjectUid: e.ObjectUID, Outcome: e.Outcome, Reason: e.Reason,
		Changes: wire.Each(e.Changes, fieldMessage), ChangesOmitted: int32(e.Omitted), Count: e.Count, Since: catalogwire.Timestamp(e.Since),
		Claims: e.Claims, TokenLimit: e.TokenLimit,
	}
}

func fieldMessage(f audit.FieldChange) *fleetv1.AuditFieldChange {
	m := &fleetv1.AuditFieldChange{Path: f.Path, SecretEffect: enumname.Value[fleetv1.AuditSecretEffect](f.Effect)}
	if f.Old != nil {
		m.Old = new(string(f.Old))
	}
	if f.New != nil {
		m.New = new(string(f.New))
	}
	return m
}

// Describe returns the document of an object, a token, a bootstrap token or a session as JSON: what people would read of it,
// without secrets.
func Describe(object any) ([]byte, error) {
	var message proto.Message
	switch o := object.(type) {
	case catalog.Token:
		return describeToken(o)
	case catalog.Session:
		return describeSession(o)
	case catalog.BootstrapToken:
		return describeBootstrapToken(o)
	case catalog.Object:
		message = codec.Show(&fleet.Record{Object: o})
	}
	if message == nil {
		return nil, fmt.Errorf("no document of a %T", object)
	}
	return protojson.Marshal(message)
}

// describeToken returns the user, the label, the end and the limit of a token, as the spec of an object.
func describeToken(t catalog.Token) ([]byte, error) {
	spec, err := protojson.Marshal(&fleetv1.Token{User: t.User, Label: t.Label, ExpireTime: catalogwire.Timestamp(t.ExpiresAt), Limit: codec.TokenLimitMessage(t.Limit), MadeWith: t.MadeWith})
	if err != nil {
		return nil, err
	}
	return fmt.Appendf(nil, `{"spec": %s}`, spec), nil
}

// describeSession returns the person of a session and the groups that the identity provider named, as
// the spec of an object.
func describeSession(s catalog.Session) ([]byte, error) {
	spec, err := protojson.Marshal(&fleetv1.Session{Person: s.Person, Groups: s.Groups})
	if err != nil {
		return nil, err
	}
	return fmt.Appendf(nil, `{"spec": %s}`, spec), nil
}
