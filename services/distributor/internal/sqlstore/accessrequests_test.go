// SPDX-FileCopyrightText: The Leat Authors
// SPDX-License-Identifier: Apache-2.0

package sqlstore_test

import (
	"context"
	"errors"
	"fmt"
	"reflect"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/leatdev/leat/services/distributor/internal/spine/catalog"
)

// wanted returns a valid request of a person.
func wanted(requester string) *catalog.AccessRequest {
	return &catalog.AccessRequest{Spec: catalog.AccessRequestSpec{
		Requester: requester, Duration: time.Hour, Reason: "INC-42: web is down",
		Access: catalog.AccessBindingSpec{Role: catalog.RoleOperator, Clusters: catalog.ClusterSelection{Names: []string{"berlin"}}},
	}}
}

// inNameOf returns a context whose edits are a person's.
func inNameOf(t *testing.T, name string) context.Context {
	t.Helper()
	return catalog.WithOrigin(t.Context(), catalog.Origin{Subject: "user:" + name})
}

func asked(t *testing.T, editor *catalog.Editor, requester string) *catalog.AccessRequest {
	t.Helper()
	request, err := editor.RequestAccess(inNameOf(t, requester), wanted(requester))
	if err != nil {
		t.Fatal(err)
	}
	return request
}

// restate changes a stored request without the editor, as if time had passed. It makes a new row
// for another time of creation, which no edit changes.
func restate(t *testing.T, s subject, name string, change func(*catalog.AccessRequest)) {
	t.Helper()
	err := s.Edit(t.Context(), func(ctx context.Context, tx catalog.Tx) error {
		object, err := tx.Get(ctx, catalog.Key{Kind: catalog.KindAccessRequest, Name: name})
		if err != nil {
			return err
		}
		next := *kindOf[*catalog.AccessRequest](t, object)
		if change(&next); !next.CreatedAt.Equal(object.Meta().CreatedAt) {
			if err := tx.Delete(ctx, object); err != nil {
				return err
			}
		}
		return tx.Put(ctx, &next)
	})
	if err != nil {
		t.Fatal(err)
	}
}

// stateOf returns the stored state of a request, and whether it is gone.
func stateOf(t *testing.T, s subject, name string) (state catalog.RequestState, gone bool) {
	t.Helper()
	err := s.Edit(t.Context(), func(ctx context.Context, tx catalog.Tx) error {
		object, err := tx.Get(ctx, catalog.Key{Kind: catalog.KindAccessRequest, Name: name})
		if gone = errors.Is(err, catalog.ErrNotFound); gone {
			return nil
		}
		if err != nil {
			return err
		}
		state = kindOf[*catalog.AccessRequest](t, object).Spec.End.State
		return nil
	})
	if err != nil {
		t.Fatal(err)
	}
	return state, gone
}

// testAccessRequests asks for access, and has others decide.
func testAccessRequests(t *testing.T, s subject) {
	editor := catalog.NewEditor(s)
	request := asked(t, editor, "corp.ada")
	if !strings.HasPrefix(request.Name, "access-") || request.UID == "" || request.CreatedBy != "user:corp.ada" {
		t.Errorf("got %+v, want a name, a uid and an author", request.Metadata)
	}
	before := time.Now()
	approved, err := editor.ApproveAccess(inNameOf(t, "boss"), request.Name, "boss")
	if err != nil {
		t.Fatal(err)
	}
	end := approved.Spec.End
	if end.State != catalog.RequestApproved || end.By != "user:boss" || end.Binding != request.Name {
		t.Errorf("got %+v, want an approval by boss", end)
	}
	bindings := changes(t, s, 0).Bindings
	if len(bindings) != 1 {
		t.Fatalf("got %d bindings, want one", len(bindings))
	}
	got := bindings[0]
	want := request.Spec.Access
	want.Users, want.ExpiresAt, want.Description = []string{"corp.ada"}, end.AccessEndsAt, "Access request "+request.Name
	if !reflect.DeepEqual(got.Spec, want) || got.Annotations[catalog.AnnotationAccessRequest] != request.Name || got.CreatedBy != "user:boss" {
		t.Errorf("got %+v with %v by %s, want %+v by user:boss", got.Spec, got.Annotations, got.CreatedBy, want)
	}
	if left := got.Spec.ExpiresAt.Sub(before); left < time.Hour-time.Minute || left > time.Hour+time.Minute {
		t.Errorf("it lasts %s from the approval on, want an hour", left)
	}
	for name, try := range map[string]func() (*catalog.AccessRequest, error){
		"approve again": func() (*catalog.AccessRequest, error) {
			return editor.ApproveAccess(inNameOf(t, "root"), request.Name, "root")
		},
		"deny": func() (*catalog.AccessRequest, error) {
			return editor.DenyAccess(inNameOf(t, "root"), request.Name, "root", "no")
		},
		"withdraw": func() (*catalog.AccessRequest, error) {
			return editor.WithdrawAccess(inNameOf(t, "corp.ada"), request.Name, "corp.ada")
		},
	} {
		var closed *catalog.RequestClosedError
		if _, err := try(); !errors.As(err, &closed) || closed.State != catalog.RequestApproved {
			t.Errorf("%s: got %v, want that it is approved", name, err)
		}
	}
	if n := len(changes(t, s, 0).Bindings); n != 1 {
		t.Errorf("got %d bindings, want one still", n)
	}
	denied, err := editor.DenyAccess(inNameOf(t, "boss"), asked(t, editor, "corp.ada").Name, "boss", "ask the team")
	if err != nil || denied.Spec.End.State != catalog.RequestDenied || denied.Spec.End.Word != "ask the team" {
		t.Errorf("got %+v, %v, want a denial", denied, err)
	}
	withdrawn, err := editor.WithdrawAccess(inNameOf(t, "corp.ada"), asked(t, editor, "corp.ada").Name, "corp.ada")
	if err != nil || withdrawn.Spec.End.State != catalog.RequestWithdrawn {
		t.Errorf("got %+v, %v, want a withdrawal", withdrawn, err)
	}
}

// testAccessRequestAuthors has the account behind a request end before the approval: the binding
// would be another person's.
func testAccessRequestAuthors(t *testing.T, s subject) {
	editor := catalog.NewEditor(s)
	join := func(name string) string {
		t.Helper()
		outcomes, err := editor.Apply(t.Context(), []catalog.Object{&catalog.User{Metadata: catalog.Metadata{Name: name}}}, false)
		if err != nil {
			t.Fatal(err)
		}
		return outcomes[0].Object.Meta().UID
	}
	ask := func(name, uid string) string {
		t.Helper()
		request := wanted(name)
		request.Spec.RequesterUID = uid
		made, err := editor.RequestAccess(inNameOf(t, name), request)
		if err != nil {
			t.Fatal(err)
		}
		return made.Name
	}
	deleted, again, taken := ask("deleted", join("deleted")), ask("again", join("again")), ask("taken", "")
	for _, name := range []string{"deleted", "again"} {
		if _, err := editor.Delete(t.Context(), catalog.Key{Kind: catalog.KindUser, Name: name}); err != nil {
			t.Fatal(err)
		}
	}
	join("again")
	join("taken") // which an identity provider's person was called when they asked
	for _, name := range []string{deleted, again, taken} {
		var closed *catalog.RequestClosedError
		if _, err := editor.ApproveAccess(inNameOf(t, "boss"), name, "boss"); !errors.As(err, &closed) {
			t.Errorf("got %v, want that the author is gone", err)
		}
	}
	if _, err := editor.ApproveAccess(inNameOf(t, "boss"), ask("here", join("here")), "boss"); err != nil {
		t.Error(err)
	}
	if n := len(changes(t, s, 0).Bindings); n != 1 {
		t.Errorf("got %d bindings, want only the one for the user who is there", n)
	}
}

// testAccessRequestRace has many people decide about one request at once.
func testAccessRequestRace(t *testing.T, s subject) {
	request := asked(t, catalog.NewEditor(s), "corp.ada")
	var deciding sync.WaitGroup
	var mu sync.Mutex
	won := 0
	for i := range 8 {
		deciding.Go(func() {
			name, editor := fmt.Sprint("boss-", i), catalog.NewEditor(s)
			_, err := editor.ApproveAccess(inNameOf(t, name), request.Name, name)
			if i%2 == 1 {
				_, err = editor.DenyAccess(inNameOf(t, name), request.Name, name, "")
			}
			var closed *catalog.RequestClosedError
			mu.Lock()
			defer mu.Unlock()
			switch {
			case err == nil:
				won++
			case !errors.As(err, &closed):
				t.Errorf("got %v, want that the request is closed", err)
			}
		})
	}
	deciding.Wait()
	if bindings := len(changes(t, s, 0).Bindings); won > 1 || bindings > 1 {
		t.Errorf("got %d decisions and %d bindings, want one at most", won, bindings)
	}
	if state, _ := stateOf(t, s, request.Name); state == catalog.RequestOpen {
		t.Error("it is open, want a decision")
	}
}

// testAccessRequestBounds asks more often than a person may, and than all people may.
func testAccessRequestBounds(t *testing.T, s subject) {
	editor := catalog.NewEditor(s)
	var asking sync.WaitGroup
	var mu sync.Mutex
	made, full := 0, 0
	for range 12 {
		asking.Go(func() {
			_, err := catalog.NewEditor(s).RequestAccess(inNameOf(t, "corp.ada"), wanted("corp.ada"))
			var refused *catalog.RequestsFullError
			mu.Lock()
			defer mu.Unlock()
			if made++; errors.As(err, &refused) && refused.IsOwn {
				made--
				full++
			} else if err != nil {
				t.Error(err)
			}
		})
	}
	asking.Wait()
	if made != 5 || full != 7 {
		t.Errorf("got %d requests and %d refusals of a burst, want 5 and 7", made, full)
	}
	// Of ended ones, the latest 20 are kept.
	first := ""
	for range 26 {
		request := asked(t, editor, "corp.bob")
		if first == "" {
			first = request.Name
		}
		if _, err := editor.WithdrawAccess(inNameOf(t, "corp.bob"), request.Name, "corp.bob"); err != nil {
			t.Fatal(err)
		}
	}
	if _, isGone := stateOf(t, s, first); !isGone {
		t.Error("the oldest request of 26 is there, want the latest 20 and no more")
	}
	if n := len(changes(t, s, 0).Plain); n != 5+21 {
		t.Errorf("got %d requests, want 5 that are open, 20 that have ended, and the latest", n)
	}
	// So are the latest 5,000 of all people.
	end := catalog.RequestEnd{State: catalog.RequestWithdrawn, By: "user:corp.x"}
	err := s.Edit(t.Context(), func(ctx context.Context, tx catalog.Tx) error {
		for i := range 5000 {
			request := wanted(fmt.Sprint("corp.q", i))
			request.Name, request.UID = fmt.Sprint("access-q", i), fmt.Sprint("uid-q", i)
			request.CreatedAt, request.ResourceVersion = catalog.Now(), tx.Revision()
			request.Spec.End = end
			request.Spec.End.At = catalog.Now().Add(-time.Hour - time.Duration(i)*time.Second)
			if err := tx.Put(ctx, request); err != nil {
				return err
			}
		}
		return nil
	})
	if err != nil {
		t.Fatal(err)
	}
	if _, err := editor.WithdrawAccess(inNameOf(t, "corp.carl"), asked(t, editor, "corp.carl").Name, "corp.carl"); err != nil {
		t.Fatal(err)
	}
	for name, want := range map[string]bool{"access-q4999": true, "access-q4979": true, "access-q4978": false, "access-q0": false} {
		if _, isGone := stateOf(t, s, name); isGone != want {
			t.Errorf("%s: got gone %t, want %t: 5000 are kept of 5021 that have ended", name, isGone, want)
		}
	}
	// The bound of the hub: many people, stored at once.
	err = s.Edit(t.Context(), func(ctx context.Context, tx catalog.Tx) error {
		for i := range 1000 - 5 {
			request := wanted(fmt.Sprint("corp.p", i))
			request.Name, request.UID = fmt.Sprint("access-", i), fmt.Sprint("uid-", i)
			request.CreatedAt, request.ResourceVersion = catalog.Now(), tx.Revision()
			if err := tx.Put(ctx, request); err != nil {
				return err
			}
		}
		return nil
	})
	if err != nil {
		t.Fatal(err)
	}
	var refused *catalog.RequestsFullError
	if _, err := editor.RequestAccess(inNameOf(t, "corp.eve"), wanted("corp.eve")); !errors.As(err, &refused) || refused.IsOwn {
		t.Errorf("got %v, want that the hub has as many as it may", err)
	}
}

// testAccessRequestsLapse has time pass for requests.
func testAccessRequestsLapse(t *testing.T, s subject) {
	editor := catalog.NewEditor(s)
	lapsing, open := asked(t, editor, "corp.ada"), asked(t, editor, "corp.ada")
	old, recent := asked(t, editor, "corp.bob"), asked(t, editor, "corp.bob")
	restate(t, s, lapsing.Name, func(r *catalog.AccessRequest) { r.CreatedAt = r.CreatedAt.Add(-catalog.RequestLife) })
	var closed *catalog.RequestClosedError
	if _, err := editor.ApproveAccess(inNameOf(t, "boss"), lapsing.Name, "boss"); !errors.As(err, &closed) || closed.State != catalog.RequestLapsed {
		t.Errorf("got %v, want that it has lapsed although it is stored as open", err)
	}
	for _, request := range []*catalog.AccessRequest{old, recent} {
		if _, err := editor.WithdrawAccess(inNameOf(t, "corp.bob"), request.Name, "corp.bob"); err != nil {
			t.Fatal(err)
		}
	}
	restate(t, s, old.Name, func(r *catalog.AccessRequest) { r.Spec.End.At = r.Spec.End.At.Add(-30 * 24 * time.Hour) })
	for range 2 { // the second time there is nothing to do
		if err := editor.SweepRequests(t.Context()); err != nil {
			t.Fatal(err)
		}
	}
	for name, want := range map[string]catalog.RequestState{lapsing.Name: catalog.RequestLapsed, open.Name: catalog.RequestOpen, recent.Name: catalog.RequestWithdrawn} {
		if state, isGone := stateOf(t, s, name); state != want || isGone {
			t.Errorf("got %q, want %q", state, want)
		}
	}
	if _, isGone := stateOf(t, s, old.Name); !isGone {
		t.Error("it is there 30 days after its end, want it forgotten")
	}
	revision := changes(t, s, 0).Revision
	if err := editor.SweepRequests(t.Context()); err != nil || changes(t, s, 0).Revision != revision {
		t.Errorf("a look that found nothing took a revision: %v", err)
	}
}
