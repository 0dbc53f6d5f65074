// SPDX-FileCopyrightText: The Leat Authors
// SPDX-License-Identifier: Apache-2.0

package codec

import (
	"errors"
	"strings"
	"time"

	"google.golang.org/protobuf/reflect/protoreflect"

	fleetv1 "github.com/leatdev/leat/gen/go/leat/fleet/v1"
	"github.com/leatdev/leat/internal/kit/fielderr"
	"github.com/leatdev/leat/services/distributor/internal/fleet"
	"github.com/leatdev/leat/services/distributor/internal/spine/catalog"
	"github.com/leatdev/leat/services/distributor/internal/spine/catalogwire"
)

// TokenMessage returns the message of an API token, without its secret.
func TokenMessage(t catalog.Token) *fleetv1.Token {
	return &fleetv1.Token{
		Id: t.ID, User: t.User, Label: t.Label, CreateTime: catalogwire.Timestamp(t.CreatedAt), ExpireTime: catalogwire.Timestamp(t.ExpiresAt),
		LastUsedTime: catalogwire.Timestamp(t.LastUsedAt), LastUsedAddress: t.LastUsedFrom, Limit: TokenLimitMessage(t.Limit),
		CreatedBy: t.CreatedBy, MadeWith: t.MadeWith,
	}
}

// TokenLimitMessage returns the message of what a token is limited to; nil if it is not.
func TokenLimitMessage(l *catalog.TokenLimit) *fleetv1.TokenLimit {
	if l == nil {
		return nil
	}
	spec := bindingMessage(&catalog.AccessBinding{Spec: l.Binding(time.Time{})}, fleet.BindingStatus{}).GetSpec()
	return &fleetv1.TokenLimit{
		Role: spec.GetRole(), RoleName: spec.GetRoleName(), Hub: spec.GetHub(), Projects: spec.GetProjects(), Clusters: spec.GetClusters(),
		Services: spec.GetServices(), Repositories: spec.GetRepositories(),
	}
}

// TokenLimitOf returns the settled and valid limit of a message, which is read as a binding is; nil for
// none. It refuses an unknown field anywhere, because that may narrow the token.
func TokenLimitOf(m *fleetv1.TokenLimit) (*catalog.TokenLimit, error) {
	if m == nil {
		return nil, nil
	}
	if hasUnknown(m.ProtoReflect()) {
		return nil, fielderr.New("limit", "has a field that this version of the hub does not know")
	}
	binding, err := BindingOf(&fleetv1.AccessBinding{Spec: &fleetv1.AccessBindingSpec{
		Role: m.GetRole(), RoleName: m.GetRoleName(), Hub: m.GetHub(), Projects: m.GetProjects(), Clusters: m.GetClusters(),
		Services: m.GetServices(), Repositories: m.GetRepositories(),
	}})
	if e, ok := errors.AsType[*fielderr.Error](err); ok {
		return nil, &fielderr.Error{Path: "limit." + strings.TrimPrefix(e.Path, "spec."), Message: e.Message}
	}
	if err != nil {
		return nil, err
	}
	spec := binding.Spec
	limit := catalog.TokenLimit{
		Role: spec.Role, Hub: spec.Hub, Projects: spec.Projects, Clusters: spec.Clusters, Services: spec.Services, Repositories: spec.Repositories,
	}.Settled()
	if err := limit.Validate(); err != nil {
		return nil, err
	}
	return &limit, nil
}

// hasUnknown reports whether a message, or one in it, has a field that this version does not know.
func hasUnknown(m protoreflect.Message) bool {
	found := len(m.GetUnknown()) > 0
	m.Range(func(field protoreflect.FieldDescriptor, value protoreflect.Value) bool {
		switch {
		case found || field.Message() == nil || field.IsMap(): // maps of these messages hold text
		case field.IsList():
			for i := range value.List().Len() {
				found = found || hasUnknown(value.List().Get(i).Message())
			}
		default:
			found = hasUnknown(value.Message())
		}
		return !found
	})
	return found
}
