// SPDX-FileCopyrightText: The Leat Authors
// SPDX-License-Identifier: Apache-2.0

package fleetcalls_test

import (
	"context"
	"errors"
	"testing"
	"time"

	"connectrpc.com/connect"

	errorsv1 "github.com/leatdev/leat/gen/go/leat/errors/v1"
	fleetv1 "github.com/leatdev/leat/gen/go/leat/fleet/v1"
	typev1 "github.com/leatdev/leat/gen/go/leat/type/v1"
	"github.com/leatdev/leat/internal/contract/fleetdoc"
	"github.com/leatdev/leat/internal/runtime/fleetcalls"
	"github.com/leatdev/leat/internal/runtime/rpcerr"
)

// answers is a hub that answers each call with what it has, and notes the request.
type answers struct {
	documents []*fleetv1.Document
	err       error
	asked     any
}

func (a *answers) Apply(_ context.Context, req *fleetv1.ApplyRequest) (*fleetv1.ApplyResponse, error) {
	a.asked = req
	if a.err != nil {
		return nil, a.err
	}
	res := &fleetv1.ApplyResponse{}
	for _, document := range a.documents {
		res.Outcomes = append(res.Outcomes, &fleetv1.ApplyOutcome{Document: document})
	}
	return res, nil
}

func (a *answers) Get(_ context.Context, req *fleetv1.GetRequest) (*fleetv1.GetResponse, error) {
	a.asked = req
	return &fleetv1.GetResponse{Document: a.documents[0]}, a.err
}

func (a *answers) List(_ context.Context, req *fleetv1.ListRequest) (*fleetv1.ListResponse, error) {
	a.asked = req
	return &fleetv1.ListResponse{Documents: a.documents, NextPageToken: "next"}, a.err
}

func (a *answers) Delete(_ context.Context, req *fleetv1.DeleteRequest) (*fleetv1.DeleteResponse, error) {
	a.asked = req
	return &fleetv1.DeleteResponse{}, a.err
}

func cluster(name string) *fleetv1.Cluster {
	return &fleetv1.Cluster{Metadata: &typev1.Metadata{Name: name}}
}

func TestCallsNameTheKind(t *testing.T) {
	t.Parallel()
	hub := &answers{documents: []*fleetv1.Document{fleetdoc.Of(cluster("one"))}}
	got, err := fleetcalls.Get[*fleetv1.Cluster](t.Context(), hub, "one")
	if req, _ := hub.asked.(*fleetv1.GetRequest); err != nil || got.GetMetadata().GetName() != "one" || req.GetKind() != "Cluster" || req.GetName() != "one" {
		t.Errorf("got %v, %v by %v", got, err, hub.asked)
	}
	page, err := fleetcalls.List[*fleetv1.Cluster](t.Context(), hub, &fleetv1.ListRequest{Project: "shop"})
	if req, _ := hub.asked.(*fleetv1.ListRequest); err != nil || len(page.Objects) != 1 || page.NextPageToken != "next" || req.GetKind() != "Cluster" || req.GetProject() != "shop" {
		t.Errorf("got %v, %v by %v", page, err, hub.asked)
	}
	err = fleetcalls.Delete[*fleetv1.AccessBinding](t.Context(), hub, "b")
	if req, _ := hub.asked.(*fleetv1.DeleteRequest); err != nil || req.GetKind() != "AccessBinding" || req.GetName() != "b" {
		t.Errorf("got %v by %v", err, hub.asked)
	}
	for mode, edit := range map[fleetv1.ApplyMode]func(context.Context, fleetcalls.Hub, *fleetv1.Cluster) (*fleetv1.Cluster, error){
		fleetv1.ApplyMode_APPLY_MODE_CREATE: fleetcalls.Create[*fleetv1.Cluster], fleetv1.ApplyMode_APPLY_MODE_UPDATE: fleetcalls.Update[*fleetv1.Cluster],
	} {
		stored, err := edit(t.Context(), hub, cluster("one"))
		req, _ := hub.asked.(*fleetv1.ApplyRequest)
		if err != nil || stored.GetMetadata().GetName() != "one" || req.GetMode() != mode || req.GetDryRun() {
			t.Errorf("%s: got %v, %v by %v", mode, stored, err, hub.asked)
		}
	}
}

// TestErrorsOfOneDocument have neither its place in the text nor in the field, and everything else
// as the hub reports it.
func TestErrorsOfOneDocument(t *testing.T) {
	t.Parallel()
	plain := errors.New("documents[0]: of no hub")
	for name, test := range map[string]struct {
		err            error
		message, field string
	}{
		"a field":   {rpcerr.Field("documents[0].spec.url", "is required"), "spec.url: is required", "spec.url"},
		"an object": {rpcerr.New(connect.CodePermissionDenied, errorsv1.Reason_REASON_ACCESS_DENIED, "documents[0]: may not", rpcerr.RetryAfter(time.Second)), "may not", ""},
		"the call":  {rpcerr.Field("mode", "is not known"), "mode: is not known", "mode"},
		"no reason": {plain, plain.Error(), ""},
	} {
		_, err := fleetcalls.Create(t.Context(), &answers{err: test.err}, cluster("one"))
		if rpcerr.Message(err) != test.message || rpcerr.Metadata(err)[rpcerr.MetadataField] != test.field ||
			rpcerr.ReasonOf(err) != rpcerr.ReasonOf(test.err) || connect.CodeOf(err) != connect.CodeOf(test.err) {
			t.Errorf("%s: got %v about %q", name, err, rpcerr.Metadata(err)[rpcerr.MetadataField])
		}
		wanted, _ := rpcerr.RetryDelay(test.err)
		if delay, _ := rpcerr.RetryDelay(err); delay != wanted {
			t.Errorf("%s: got a delay of %v, want %v", name, delay, wanted)
		}
	}
}

// TestOddAnswers are the answers of a hub that does not keep to the protocol.
func TestOddAnswers(t *testing.T) {
	t.Parallel()
	for _, documents := range [][]*fleetv1.Document{nil, {fleetdoc.Of(cluster("one")), fleetdoc.Of(cluster("two"))}} {
		if got, err := fleetcalls.Create(t.Context(), &answers{documents: documents}, cluster("one")); err == nil || got != nil {
			t.Errorf("got %v, %v, want an error for %d outcomes", got, err, len(documents))
		}
	}
	for _, document := range []*fleetv1.Document{nil, {}, fleetdoc.Of(&fleetv1.Role{})} {
		if got, err := fleetcalls.Get[*fleetv1.Cluster](t.Context(), &answers{documents: []*fleetv1.Document{document}}, "one"); got != nil {
			t.Errorf("got %v, %v, want no cluster of %v", got, err, document)
		}
	}
}
