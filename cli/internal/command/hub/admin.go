// SPDX-FileCopyrightText: The Leat Authors
// SPDX-License-Identifier: Apache-2.0

package hub

import (
	"context"
	"fmt"
	"time"

	"github.com/spf13/cobra"

	"github.com/leatdev/leat/cli/internal/client"
	"github.com/leatdev/leat/cli/internal/failure"
	"github.com/leatdev/leat/cli/internal/session"
	"github.com/leatdev/leat/cli/internal/show"
	fleetv1 "github.com/leatdev/leat/gen/go/leat/fleet/v1"
	"github.com/leatdev/leat/internal/kit/amount"
)

// progressEvery is how often a command asks how far a rotation is.
const progressEvery = 2 * time.Second

// Admin is `leat admin`.
func Admin(s *session.Session) *cobra.Command {
	cmd := &cobra.Command{
		Use:   "admin",
		Short: "Administer the hub",
		Long:  `Administer the hub. Only members of leat:admins may do this.`,
		Args:  cobra.NoArgs,
		RunE:  func(cmd *cobra.Command, _ []string) error { return cmd.Help() },
	}
	rotate := &cobra.Command{
		Use:   "rotate",
		Short: "Replace a key of the hub while it is in use",
		Long: `Replace a key of the hub while it is in use. No call fails, and nobody is signed out. The secrets of services are settings, and are
replaced as docs/operations/keys.md says.`,
		Args: cobra.NoArgs,
		RunE: func(cmd *cobra.Command, _ []string) error { return cmd.Help() },
	}
	rotate.AddCommand(rotateSealingKey(s), rotateSigningKey(s))
	cmd.AddCommand(adminKeys(s), rotate)
	return cmd
}

func adminKeys(s *session.Session) *cobra.Command {
	format := show.Table
	cmd := &cobra.Command{
		Use:   "keys",
		Short: "Show the hub's keys, and the progress of a rotation",
		Long: `Show the hub's keys, and the progress of a rotation. Sealing keys encrypt secrets in the database; signing keys sign access
tokens. Only their ids are shown.`,
		Args: cobra.NoArgs,
		RunE: s.Calling(func(ctx context.Context, c *client.Client, _ []string) error {
			keys, err := c.GetKeys(ctx, &fleetv1.GetKeysRequest{})
			if err != nil {
				return err
			}
			return show.Keys(s.Out, format, s.Style(s.Out), time.Now(), keys)
		}),
	}
	cmd.Flags().VarP(&format, "output", "o", "how to show them")
	return cmd
}

func rotateSealingKey(s *session.Session) *cobra.Command {
	wait, timeout := true, time.Duration(0)
	cmd := &cobra.Command{
		Use:   "sealing-key",
		Short: "Replace the key that encrypts secrets in the database",
		Long: `Replace the key that encrypts secrets in the database. The new key encrypts from now on. A replica encrypts all stored secrets again in
the background, and then deletes the old key, which opens nothing any more. The command waits for that; if you interrupt it, the
rotation continues. Backups that are older contain the old key, wrapped by its root.`,
		Example: `  leat admin rotate sealing-key
  leat admin rotate sealing-key --wait=false`,
		Args: cobra.NoArgs,
		RunE: s.Calling(func(ctx context.Context, c *client.Client, _ []string) error {
			started, err := c.RotateSealingKey(ctx, &fleetv1.RotateSealingKeyRequest{})
			if err != nil {
				return err
			}
			if _, err := fmt.Fprintf(s.Out, "sealing-key/%s created\n", started.GetId()); err != nil || !wait {
				return err
			}
			ctx, cancel := context.WithTimeout(ctx, timeout)
			defer cancel()
			return followSealing(ctx, s, c)
		}),
	}
	cmd.Flags().BoolVar(&wait, "wait", true, "wait until the old key is deleted")
	cmd.Flags().DurationVar(&timeout, "timeout", time.Hour, "how long to wait")
	return cmd
}

// followSealing reports how many values are left until there is one key.
func followSealing(ctx context.Context, s *session.Session, c *client.Client) error {
	last := int64(-1)
	ticks := time.NewTicker(progressEvery)
	defer ticks.Stop()
	for {
		keys, err := c.GetKeys(ctx, &fleetv1.GetKeysRequest{})
		if err != nil && ctx.Err() == nil {
			return err
		}
		left := waitingValues(keys)
		if err == nil && left == 0 && len(keys.GetSealingKeys()) == 1 {
			_, err := fmt.Fprintln(s.Out, "the old key is deleted; it opens nothing any more")
			return err
		}
		if err == nil && left != last {
			last = left
			if _, err := fmt.Fprintf(s.Err, "%s %s left\n", amount.Of(left, "value"), amount.Are(left)); err != nil {
				return err
			}
		}
		select {
		case <-ctx.Done():
			return failure.New("the rotation has not ended yet",
				"It continues at the hub. Run leat admin keys to see how far it is; if the number of values stays the same, read the distributor's log.")
		case <-ticks.C:
		}
	}
}

// waitingValues returns how many values the current key has not sealed yet.
func waitingValues(keys *fleetv1.GetKeysResponse) int64 {
	left := keys.GetValuesWithoutKey()
	for _, key := range keys.GetSealingKeys() {
		if !key.GetCurrent() {
			left += key.GetValues()
		}
	}
	return left
}

func rotateSigningKey(s *session.Session) *cobra.Command {
	return &cobra.Command{
		Use:   "signing-key",
		Short: "Replace the key that signs access tokens",
		Long: `Replace the key that signs access tokens. The hub publishes the new key at once, and signs with it after the time that
LEAT_DISTRIBUTOR_SIGNING_KEY_LEAD sets, when every service knows it. The old key stays published until the tokens that it signed
have ended. The hub also does this on schedule: LEAT_DISTRIBUTOR_SIGNING_KEY_EVERY.`,
		Args: cobra.NoArgs,
		RunE: s.Calling(func(ctx context.Context, c *client.Client, _ []string) error {
			response, err := c.RotateSigningKey(ctx, &fleetv1.RotateSigningKeyRequest{})
			if err != nil {
				return err
			}
			key := response.GetKey()
			_, err = fmt.Fprintf(s.Out, "signing-key/%s created; it signs from %s\n", key.GetId(), key.GetSignTime().AsTime().UTC().Format(time.RFC3339))
			return err
		}),
	}
}
