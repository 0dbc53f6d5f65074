// SPDX-FileCopyrightText: The Leat Authors
// SPDX-License-Identifier: Apache-2.0

package report

import (
	"fmt"
	"io"
	"slices"
	"strings"
	"time"

	"github.com/leatdev/leat/cli/internal/delivery"
	"github.com/leatdev/leat/cli/internal/show"
)

// Text returns a reporter for people.
func Text(w io.Writer, style show.Style) Reporter {
	t := &text{w: w, style: style}
	return t.event
}

type text struct {
	w     io.Writer
	style show.Style
	began time.Time
}

func (t *text) event(e Event) {
	if t.began.IsZero() {
		t.began = e.Time
	}
	switch e.Kind {
	case Progress:
		t.line(e.Time, e.Part, e.Message)
	case Delivery:
		t.line(e.Time, "service/"+e.Service.Name, t.state(e.Service))
	case Ready:
		t.summary(e.Summary)
	case Stopping:
		t.line(e.Time, "leat up", e.Message)
	case Stopped:
		t.line(e.Time, "leat up", "stopped; the next start continues from here")
	}
}

// line is "  12.3s  cluster demo  building etcd".
func (t *text) line(at time.Time, part, message string) {
	elapsed := fmt.Sprintf("%6.1fs", at.Sub(t.began).Seconds())
	t.print("%s  %-14s %s\n", t.style.Faint(elapsed), part, message)
}

// print drops errors: once the terminal is gone there is nowhere to report them.
func (t *text) print(format string, args ...any) { _, _ = fmt.Fprintf(t.w, format, args...) }

func (t *text) state(s *Service) string {
	switch {
	case s.Delivered:
		return t.style.Good(s.Phase) + t.what(s)
	case s.Failed:
		return t.style.Bad(s.Phase) + problem(s)
	default:
		return t.style.Warn(s.Phase) + problem(s)
	}
}

// what returns " at commit 1a2b3c4d, 4 of 4 objects healthy".
func (t *text) what(s *Service) string {
	return fmt.Sprintf(" at commit %s, %d of %d objects healthy", delivery.Quote(s.Commits, s.Versions), s.Healthy, s.Objects)
}

func problem(s *Service) string {
	if s.Reason == "" {
		return ""
	}
	return ": " + s.Reason + ": " + s.Message
}

func (t *text) summary(s *Summary) {
	t.print("\n")
	for i := range s.Services {
		t.service(&s.Services[i])
	}
	t.print("\n  hub         %s\n  tunnel      %s\n  repository  %s\n  data, logs  %s\n", s.Server, s.Tunnel, s.Repository, s.DataDir)
	if s.UI != "" {
		t.print("  web UI      %s\n              (signs one browser in, within a minute; leat ui prints another one)\n", s.UI)
	}
	if s.CAFile != "" {
		t.print("  log in      leat login %s --ca-file %s\n", s.Server, quote(s.CAFile))
	}
	t.print("\n")
	t.commands("Try this in another terminal:", Commands(s))
	if slices.ContainsFunc(s.Clusters, func(c Cluster) bool { return c.Simulated }) {
		t.print("The cluster's nodes only pretend to run pods: kubectl logs and exec find nobody there,\n" +
			"and metrics and the addresses of load balancers are made up.\n\n")
	}
	if s.Pushable {
		t.commands("Change something, and see it arrive within seconds:", PushCommands(s))
	}
	t.print("Ctrl-C stops everything; the next leat up continues from there.\n\n")
}

func (t *text) service(s *Service) {
	switch {
	case s.Delivered:
		t.print("%s service/%s runs on cluster/%s%s\n", t.style.Good("✓"), s.Name, s.Cluster, t.what(s))
		t.print("  bundle %s\n", strings.Join(s.Digests, ", "))
	case s.Failed:
		t.print("%s service/%s on cluster/%s is %s%s\n", t.style.Bad("✗"), s.Name, s.Cluster, s.Phase, problem(s))
		if s.Advice != "" {
			t.print("  %s\n", s.Advice)
		}
		t.print("  leat up keeps trying and reports every change.\n")
	case s.Phase == "paused":
		t.print("%s service/%s on cluster/%s is paused; leat resume service/%s continues it\n", t.style.Warn("…"), s.Name, s.Cluster, s.Name)
	default:
		t.print("%s service/%s on cluster/%s is %s%s; leat up keeps watching it\n", t.style.Warn("…"), s.Name, s.Cluster, s.Phase, problem(s))
	}
}

func (t *text) commands(title string, commands []string) {
	t.print("%s\n\n", title)
	for _, command := range commands {
		t.print("  %s\n", command)
	}
	t.print("\n")
}

// Commands returns commands to try next, ready to be pasted into a shell.
func Commands(s *Summary) []string {
	commands := []string{"export LEAT_CONFIG=" + quote(s.Config)}
	if s.SearchPath != "" {
		commands = append(commands, "export PATH="+quote(s.SearchPath)+":$PATH")
	}
	commands = append(commands, "leat get services")
	if len(s.Clusters) > 0 {
		commands = append(commands, fmt.Sprintf("%s --kubeconfig %s -n %s get deployments,pods",
			quote(s.Kubectl), quote(s.Clusters[0].Kubeconfig), quote(s.Namespace)))
	}
	return commands
}

// PushCommands returns commands that change the demo, to follow Commands in the same shell.
func PushCommands(s *Summary) []string {
	commands := []string{
		"git clone " + quote(s.Repository) + " leat-demo && cd leat-demo",
		"sed -i.bak 's/replicas: 2/replicas: 3/' deploy/deployment.yaml",
		"git commit -am 'Three replicas' && git push",
	}
	if len(s.Services) > 0 {
		commands = append(commands, "leat sync service/"+s.Services[0].Name+" --wait")
	}
	return commands
}

// quote makes text one word of a POSIX shell.
func quote(text string) string {
	plain := func(r rune) bool {
		return r >= 'a' && r <= 'z' || r >= 'A' && r <= 'Z' || r >= '0' && r <= '9' || strings.ContainsRune("/._-+:@%,=", r)
	}
	if text != "" && strings.IndexFunc(text, func(r rune) bool { return !plain(r) }) < 0 {
		return text
	}
	return "'" + strings.ReplaceAll(text, "'", `'\''`) + "'"
}
