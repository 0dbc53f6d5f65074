// SPDX-FileCopyrightText: The Leat Authors
// SPDX-License-Identifier: Apache-2.0

// Package fleet holds the commands that define what runs where, and show its state.
package fleet

import (
	"context"
	"fmt"
	"strings"

	"github.com/spf13/cobra"

	"github.com/leatdev/leat/cli/internal/client"
	"github.com/leatdev/leat/cli/internal/failure"
	"github.com/leatdev/leat/cli/internal/session"
	"github.com/leatdev/leat/internal/contract/document"
)

// target is a parsed name such as "service/shop".
type target struct{ kind, name string }

func (t target) String() string { return strings.ToLower(t.kind) + "/" + t.name }

// names reports whether the target is the object of a reference. One without a cluster is the service of
// that name in every cluster.
func (t target) names(reference string) bool {
	if t.kind == "Service" && !strings.Contains(t.name, "@") {
		reference, _, _ = strings.Cut(reference, "@")
	}
	return t.name == reference
}

// parseTarget parses KIND/NAME, or KIND/PROJECT/NAME. A service may be named with its cluster behind an @.
func parseTarget(s *session.Session, text string) (target, error) {
	word, name, found := strings.Cut(text, "/")
	if plain, _, _ := strings.Cut(name, "@"); !found || plain == "" || strings.Count(plain, "/") > 1 {
		return target{}, failure.Usage("%q is not of the form KIND/NAME or KIND/PROJECT/NAME, such as service/shop", text)
	}
	kind, err := parseKind(word)
	return target{kind, s.Reference(kind, name)}, err
}

func parseKind(word string) (string, error) {
	kind, ok := document.Kind(word)
	if !ok {
		return "", failure.Usage("there is no kind %q, only %s%s", word, strings.Join(document.Kinds(), ", "), document.Suggest(word, document.Kinds()))
	}
	return kind, nil
}

// parseService parses service/NAME, service/PROJECT/NAME or a bare NAME, each with @CLUSTER or without.
func parseService(s *session.Session, text string) (string, error) {
	if plain, _, _ := strings.Cut(text, "@"); !strings.Contains(plain, "/") && plain != "" {
		return s.Reference("Service", text), nil
	}
	t, err := parseTarget(s, text)
	if err == nil && t.kind != "Service" {
		err = failure.Usage("%s is not a service; write service/NAME", t)
	}
	return t.name, err
}

// serviceTarget returns the target of a service's name.
func serviceTarget(name string) target { return target{"Service", name} }

// onService makes cmd a command whose one argument names a service, and do its action.
func onService(
	s *session.Session, cmd *cobra.Command, do func(ctx context.Context, c *client.Client, name string) error,
) *cobra.Command {
	cmd.Args, cmd.ValidArgsFunction = oneService, completeServices(s)
	cmd.RunE = func(cmd *cobra.Command, args []string) error {
		name, err := parseService(s, args[0])
		if err != nil {
			return err
		}
		c, err := s.Client()
		if err != nil {
			return s.Fail(err)
		}
		return s.Fail(do(cmd.Context(), c, name))
	}
	return cmd
}

// oneService wants exactly one argument.
func oneService(cmd *cobra.Command, args []string) error { return oneOf("service/NAME")(cmd, args) }

// oneOf wants exactly one argument of some form.
func oneOf(form string) cobra.PositionalArgs {
	return func(_ *cobra.Command, args []string) error {
		switch len(args) {
		case 0:
			return fmt.Errorf("%s is missing", form)
		case 1:
			return nil
		default:
			return fmt.Errorf("want only %s, got %d arguments", form, len(args))
		}
	}
}

// completeServices completes service/NAME.
func completeServices(s *session.Session) cobra.CompletionFunc {
	return func(cmd *cobra.Command, args []string, _ string) ([]string, cobra.ShellCompDirective) {
		if len(args) > 0 {
			return nil, cobra.ShellCompDirectiveNoFileComp
		}
		return completeNames(cmd, s, "Service", "service/"), cobra.ShellCompDirectiveNoFileComp
	}
}

// completeNames lists existing names. It returns no error, because a shell cannot show one on TAB.
func completeNames(cmd *cobra.Command, s *session.Session, kind, prefix string) []string {
	c, err := s.Client()
	if err != nil {
		return nil
	}
	objects, err := c.All(cmd.Context(), kind, s.Project())
	if err != nil {
		return nil
	}
	count := map[string]int{}
	for _, object := range objects {
		count[document.Metadata(object).GetName()]++
	}
	var names []string
	for _, object := range objects {
		name := document.Metadata(object).GetName()
		if service := object.GetService(); count[name] > 1 && service != nil {
			name += "@" + service.GetSpec().GetCluster()
		}
		names = append(names, prefix+name)
	}
	return names
}
