// SPDX-FileCopyrightText: The Leat Authors
// SPDX-License-Identifier: Apache-2.0

package fleettest

import (
	"cmp"
	"context"
	"fmt"
	"maps"
	"slices"
	"strings"
	"time"

	"connectrpc.com/connect"
	"google.golang.org/protobuf/proto"

	errorsv1 "github.com/leatdev/leat/gen/go/leat/errors/v1"
	fleetv1 "github.com/leatdev/leat/gen/go/leat/fleet/v1"
	"github.com/leatdev/leat/internal/contract/document"
	"github.com/leatdev/leat/internal/contract/objectname"
	"github.com/leatdev/leat/internal/runtime/rpcerr"
)

func (h *Hub) get(kind, name string) (*fleetv1.Document, error) {
	h.mu.Lock()
	defer h.mu.Unlock()
	key, err := h.keyLocked(kind, name)
	if err != nil {
		return nil, err
	}
	return proto.CloneOf(h.objects[key]), nil
}

// keyLocked returns the key of the object that a request names. A service may be named without its
// cluster if that leads to one.
func (h *Hub) keyLocked(kind, name string) (string, error) {
	key := kind + "/" + name
	if _, ok := h.objects[key]; ok {
		return key, nil
	}
	var found []string
	for other := range h.objects {
		if kind == "service" && strings.HasPrefix(other, key+"@") {
			found = append(found, other)
		}
	}
	switch len(found) {
	case 0:
		return "", rpcerr.NotFound(kind, name)
	case 1:
		return found[0], nil
	}
	slices.Sort(found)
	names := strings.ReplaceAll(strings.Join(found, ", "), "service/", "")
	return "", rpcerr.New(connect.CodeInvalidArgument, errorsv1.Reason_REASON_NAME_AMBIGUOUS,
		fmt.Sprintf("service %q runs in several clusters: %s; name one of them", name, names))
}

func (h *Hub) list(kind string) []*fleetv1.Document {
	h.mu.Lock()
	defer h.mu.Unlock()
	var found []*fleetv1.Document
	for _, key := range slices.Sorted(maps.Keys(h.objects)) {
		if strings.HasPrefix(key, kind) {
			found = append(found, proto.CloneOf(h.objects[key]))
		}
	}
	return found
}

// shown returns what answers have of an object. It may change it.
func (h *Hub) shown(object *fleetv1.Document) *fleetv1.Document {
	if set := object.GetConfigSet(); set != nil {
		for key := range set.GetSpec().GetConfig().GetSecrets() {
			set.Spec.Config.Secrets[key] = ""
		}
	}
	if source := object.GetFleetSource(); source != nil {
		source.Status = holding()
	}
	if policy := object.GetImagePolicy(); policy != nil {
		policy.Status = writing(policy.GetSpec())
	}
	if global := object.GetGlobalService(); global != nil {
		global.Status = globals{hub: h}.status(document.Reference(global.GetMetadata()))
	}
	return object
}

// Get implements FleetService.
func (h *Hub) Get(_ context.Context, request *fleetv1.GetRequest) (*fleetv1.GetResponse, error) {
	object, err := h.get(strings.ToLower(request.GetKind()), request.GetName())
	if err != nil {
		return nil, err
	}
	return &fleetv1.GetResponse{Document: h.shown(object)}, nil
}

// List implements FleetService, one object a page.
func (h *Hub) List(_ context.Context, request *fleetv1.ListRequest) (*fleetv1.ListResponse, error) {
	all := slices.DeleteFunc(h.list(strings.ToLower(request.GetKind())+"/"), func(object *fleetv1.Document) bool {
		own := cmp.Or(document.Metadata(object).GetProject(), objectname.Default)
		return request.GetProject() != "" && own != request.GetProject()
	})
	one, next := paged(all, request.GetPage())
	for _, object := range one {
		h.shown(object)
	}
	return &fleetv1.ListResponse{Documents: one, NextPageToken: next}, nil
}

// Delete implements FleetService.
func (h *Hub) Delete(_ context.Context, request *fleetv1.DeleteRequest) (*fleetv1.DeleteResponse, error) {
	return &fleetv1.DeleteResponse{}, h.remove(strings.ToLower(request.GetKind()), request.GetName())
}

func (h *Hub) remove(kind, name string) error {
	h.mu.Lock()
	defer h.mu.Unlock()
	key, err := h.keyLocked(kind, name)
	if err != nil {
		return err
	}
	if kind != "service" && h.used(kind, name) {
		return rpcerr.New(connect.CodeFailedPrecondition, errorsv1.Reason_REASON_IN_USE, kind+" "+name+" is named by a service")
	}
	delete(h.objects, key)
	h.changed.Notify()
	return nil
}

func (h *Hub) used(kind, name string) bool {
	for _, object := range h.objects {
		spec := object.GetService().GetSpec()
		for _, source := range spec.GetSources() {
			if kind == "repository" && source.GetRepository() == name {
				return true
			}
		}
		if kind == "cluster" && spec.GetCluster() == name {
			return true
		}
	}
	return false
}

// Contested is a label of services that change in the store whenever they are first read for an
// update.
const Contested = "contested"

// Apply implements FleetService. It refuses a repository without url.
func (h *Hub) Apply(_ context.Context, request *fleetv1.ApplyRequest) (*fleetv1.ApplyResponse, error) {
	for i, object := range request.GetDocuments() {
		if r := object.GetRepository(); r != nil && r.GetSpec().GetUrl() == "" {
			return nil, rpcerr.Field(fmt.Sprintf("documents[%d].spec.url", i), "is required")
		}
		if d := object.GetRepository().GetSpec().GetPollInterval(); d != nil && d.AsDuration() < 5*time.Second {
			return nil, rpcerr.Field(fmt.Sprintf("documents[%d].spec.poll_interval", i), "is "+d.AsDuration().String()+"; it must be between 5s and 24h0m0s")
		}
	}
	response := &fleetv1.ApplyResponse{}
	for _, object := range request.GetDocuments() {
		action, err := h.applyOne(object, request)
		if err != nil {
			return nil, err
		}
		outcome := &fleetv1.ApplyOutcome{Action: action, Document: object}
		if object.GetService() != nil && action != fleetv1.ApplyAction_APPLY_ACTION_CREATED {
			outcome.Warnings = h.holds()
		}
		response.Outcomes = append(response.Outcomes, outcome)
	}
	return response, nil
}

// holds returns a warning for each rollout policy: the double's policies hold every service.
func (h *Hub) holds() (warnings []string) {
	for _, policy := range h.list("rolloutpolicy/") {
		_, name := document.Identify(policy)
		warnings = append(warnings, "held by rolloutpolicy "+name+" until its rollout admits it")
	}
	return warnings
}

func (h *Hub) applyOne(object *fleetv1.Document, request *fleetv1.ApplyRequest) (fleetv1.ApplyAction, error) {
	kind, name := document.Identify(object)
	stored, missing := h.get(strings.ToLower(kind), name)
	switch mode := request.GetMode(); {
	case mode == fleetv1.ApplyMode_APPLY_MODE_UPDATE && missing != nil:
		return 0, missing
	case mode == fleetv1.ApplyMode_APPLY_MODE_UPDATE:
		return fleetv1.ApplyAction_APPLY_ACTION_CONFIGURED, h.update(stored, object)
	case mode == fleetv1.ApplyMode_APPLY_MODE_CREATE && missing == nil:
		return 0, rpcerr.New(connect.CodeAlreadyExists, errorsv1.Reason_REASON_ALREADY_EXISTS,
			fmt.Sprintf("%s %q already exists; update it, or choose another name", strings.ToLower(kind), name))
	}
	if !request.GetDryRun() {
		if service := object.GetService(); service != nil {
			service.Status = Healthy()
		}
		h.Put(object)
	}
	if missing == nil {
		return fleetv1.ApplyAction_APPLY_ACTION_UNCHANGED, nil
	}
	return fleetv1.ApplyAction_APPLY_ACTION_CREATED, nil
}

// update replaces the stored object, whose status stays.
func (h *Hub) update(stored, next *fleetv1.Document) error {
	metadata := document.Metadata(stored)
	if _, isContested := metadata.GetLabels()[Contested]; isContested {
		delete(metadata.GetLabels(), Contested)
		metadata.ResourceVersion++
		h.Put(stored)
	}
	wanted := document.Metadata(next)
	if version := wanted.GetResourceVersion(); version != 0 && version != metadata.GetResourceVersion() {
		return rpcerr.New(connect.CodeAborted, errorsv1.Reason_REASON_VERSION_CONFLICT, "the object changed since it was read")
	}
	wanted.ResourceVersion = metadata.GetResourceVersion() + 1
	if service := next.GetService(); service != nil {
		service.Status = stored.GetService().GetStatus()
	}
	h.Put(next)
	if global := next.GetGlobalService(); global != nil {
		return globals{hub: h}.updated(global)
	}
	return nil
}

// Watch implements FleetService: everything, and everything again after each change.
func (h *Hub) Watch(ctx context.Context, request *fleetv1.WatchRequest, stream *connect.ServerStream[fleetv1.WatchResponse]) error {
	for {
		changed := h.changed.Next()
		for _, object := range h.list("") {
			kind, name := document.Identify(object)
			if only := request.GetKind(); only != "" && only != kind {
				continue
			}
			if only := request.GetName(); only != "" && name != only && !strings.HasPrefix(name, only+"@") {
				continue
			}
			if err := stream.Send(&fleetv1.WatchResponse{Document: object}); err != nil {
				return err
			}
		}
		select {
		case <-ctx.Done():
			return ctx.Err()
		case <-changed:
		}
	}
}
