// SPDX-FileCopyrightText: The Leat Authors
// SPDX-License-Identifier: Apache-2.0

// Package policywire turns policies and settings into what they are on the wire, and back. It is
// the one place that knows both, for the hub and for agents.
//
// A message from the wire is not checked, except for one thing: a value or a field that this
// version does not know is an error, because their author asked for more care than this version can
// take. Everything else is the validation's.
package policywire

import (
	"fmt"
	"strings"
	"time"

	"google.golang.org/protobuf/reflect/protoreflect"
	"google.golang.org/protobuf/types/known/durationpb"

	typev1 "github.com/leatdev/leat/gen/go/leat/type/v1"
	"github.com/leatdev/leat/internal/contract/enumname"
	"github.com/leatdev/leat/internal/contract/syncpolicy"
	"github.com/leatdev/leat/internal/kit/fielderr"
)

// Policy returns the policy of a message, without the capability words that it requires. The error
// is a *fielderr.Error.
func Policy(m *typev1.SyncPolicy) (syncpolicy.Policy, error) {
	if err := understood(m.ProtoReflect(), ""); err != nil {
		return syncpolicy.Policy{}, err
	}
	ignore, err := ignoreRules(m.GetIgnore())
	if err != nil {
		return syncpolicy.Policy{}, err
	}
	return syncpolicy.Policy{
		Drift:          word[syncpolicy.DriftMode](m.GetDrift(), typev1.DriftMode_DRIFT_MODE_CORRECT),
		Ignore:         ignore,
		Conflicts:      list(m.GetConflicts(), conflictRule),
		Adoption:       word[syncpolicy.Adoption](m.GetAdoption(), typev1.Adoption_ADOPTION_ALWAYS),
		Recreate:       m.GetRecreate(),
		Deletion:       deletion(m.GetDeletion()),
		DependsOn:      list(m.GetDependsOn(), dependency),
		Windows:        list(m.GetWindows(), window),
		Tests:          tests(m.GetTests()),
		ServiceAccount: m.GetServiceAccount(),
		HealthRules:    list(m.GetHealthRules(), healthRule),
		Limits:         limits(m.GetLimits()),
	}, nil
}

func limits(m *typev1.ServiceLimits) *syncpolicy.Limits {
	if m == nil {
		return nil
	}
	return &syncpolicy.Limits{
		Namespaces: AllowList(m.GetNamespaces()), ClusterScopedKinds: AllowList(m.GetClusterScopedKinds()), ServiceAccounts: AllowList(m.GetServiceAccounts()),
		ClusterAnnotations: AllowList(m.GetClusterAnnotations()),
	}
}

// AllowList returns the list of a message: nil for none, and an empty list for one that allows nothing.
func AllowList(m *typev1.AllowList) syncpolicy.AllowList {
	if m == nil {
		return nil
	}
	return append(syncpolicy.AllowList{}, m.GetAllow()...)
}

// Settings converts the message. With an error, which is a *fielderr.Error, it returns the part
// that it understood.
func Settings(m *typev1.AgentSettings) (syncpolicy.AgentSettings, error) {
	return syncpolicy.AgentSettings{
		HealthRules:           list(m.GetHealthRules(), healthRule),
		DefaultServiceAccount: m.GetDefaultServiceAccount(),
		LockDown:              m.GetLockDown(),
		RefreshInterval:       m.GetRefreshInterval().AsDuration(),
		Workers:               int(m.GetWorkers()),
		LogLevel:              m.GetLogLevel(),
		Metrics:               m.GetMetrics(),
	}, understood(m.ProtoReflect(), "")
}

// ignoreRules returns the rules of messages, which may have ends that no clock reaches.
func ignoreRules(all []*typev1.IgnoreRule) ([]syncpolicy.IgnoreRule, error) {
	rules := list(all, ignoreRule)
	for i, m := range all {
		until, err := End(fielderr.Indexed("ignore", i)+".until", m.GetUntil())
		if err != nil {
			return nil, err
		}
		rules[i].Until = until
	}
	return rules, nil
}

func ignoreRule(m *typev1.IgnoreRule) syncpolicy.IgnoreRule {
	objects := m.GetObjects()
	return syncpolicy.IgnoreRule{
		Objects: syncpolicy.Selector{
			Group: objects.GetGroup(), Kind: objects.GetKind(), Namespace: objects.GetNamespace(), Name: objects.GetName(), Labels: objects.GetLabels(),
		},
		Pointers: texts(m.GetPointers()), Managers: texts(m.GetManagers()),
	}
}

func conflictRule(m *typev1.ConflictRule) syncpolicy.ConflictRule {
	return syncpolicy.ConflictRule{Manager: m.GetManager(), Action: word[syncpolicy.ConflictAction](m.GetAction(), typev1.ConflictAction_CONFLICT_ACTION_REPORT)}
}

func deletion(m *typev1.Deletion) syncpolicy.Deletion {
	return syncpolicy.Deletion{
		Propagation: word[syncpolicy.Propagation](m.GetPropagation(), typev1.DeletePropagation_DELETE_PROPAGATION_FOREGROUND), Timeout: m.GetTimeout().AsDuration(), Detach: m.GetDetach(),
		Namespaces: m.GetNamespaces(), Definitions: m.GetDefinitions(), VolumeClaims: m.GetVolumeClaims(),
	}
}

func dependency(m *typev1.Dependency) syncpolicy.Dependency {
	d := syncpolicy.Dependency{Service: m.GetService(), Condition: m.GetCondition()}
	if object := m.GetObject(); object != nil {
		d.Object = &syncpolicy.ObjectReference{
			APIVersion: object.GetApiVersion(), Kind: object.GetKind(), Namespace: object.GetNamespace(), Name: object.GetName(),
		}
	}
	return d
}

// Windows returns the windows of messages.
func Windows(messages []*typev1.SyncWindow) []syncpolicy.Window { return list(messages, window) }

func window(m *typev1.SyncWindow) syncpolicy.Window {
	return syncpolicy.Window{
		Schedule: m.GetSchedule(), Duration: m.GetDuration().AsDuration(), TimeZone: m.GetTimeZone(), Deny: m.GetDeny(), Strict: m.GetStrict(),
	}
}

// tests is nil where nothing is said.
func tests(m *typev1.Tests) *syncpolicy.Tests {
	t := syncpolicy.Tests{Path: m.GetPath(), Timeout: m.GetTimeout().AsDuration(), Disabled: m.GetDisabled()}
	if t == (syncpolicy.Tests{}) {
		return nil
	}
	return &t
}

func healthRule(m *typev1.HealthRule) syncpolicy.HealthRule {
	return syncpolicy.HealthRule{
		Group: m.GetGroup(), Kind: m.GetKind(), Healthy: m.GetHealthy(), Progressing: m.GetProgressing(), Degraded: m.GetDegraded(),
		Message: m.GetMessage(),
	}
}

// word returns the value of an enum as syncpolicy writes it: its name in small letters. It returns
// the empty word for the default, whether that is written out or not, and for a value that this
// version does not know.
func word[T ~string, E interface {
	~int32
	protoreflect.Enum
}](value, byDefault E) T {
	if value == byDefault || !isKnown(value) {
		return ""
	}
	return T(strings.ToLower(enumname.Of(value)))
}

func isKnown(value protoreflect.Enum) bool {
	return value.Descriptor().Values().ByNumber(value.Number()) != nil
}

// list is nil where there is nothing.
func list[M, T any](messages []M, convert func(M) T) []T {
	if len(messages) == 0 {
		return nil
	}
	all := make([]T, len(messages))
	for i, m := range messages {
		all[i] = convert(m)
	}
	return all
}

func texts(all []string) []string { return list(all, strings.Clone) }

// span is unset for zero.
func span(d time.Duration) *durationpb.Duration {
	if d == 0 {
		return nil
	}
	return durationpb.New(d)
}

func unknown(path, message string) error {
	return &fielderr.Error{Path: path, Message: message + "; a newer version of Leat wrote it"}
}

// understood finds settings that this version does not know, and invalid spans of time.
func understood(m protoreflect.Message, at string) (err error) {
	if len(m.GetUnknown()) > 0 {
		return unknown(strings.TrimSuffix(at, "."), "has a field that is not known")
	}
	if d, ok := m.Interface().(*durationpb.Duration); ok && m.IsValid() && d.CheckValid() != nil {
		return &fielderr.Error{Path: strings.TrimSuffix(at, "."), Message: "is not a valid duration"}
	}
	m.Range(func(field protoreflect.FieldDescriptor, value protoreflect.Value) bool {
		err = fieldUnderstood(field, value, at+string(field.Name()))
		return err == nil
	})
	return err
}

func fieldUnderstood(field protoreflect.FieldDescriptor, value protoreflect.Value, at string) error {
	switch {
	case field.Enum() != nil:
		if field.Enum().Values().ByNumber(value.Enum()) == nil {
			return unknown(at, "has a value that is not known")
		}
	case field.Message() == nil:
	case field.IsList():
		for i := range value.List().Len() {
			if err := understood(value.List().Get(i).Message(), fmt.Sprintf("%s[%d].", at, i)); err != nil {
				return err
			}
		}
	default:
		return understood(value.Message(), at+".")
	}
	return nil
}
