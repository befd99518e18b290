// Registers a CSI driver with a kubelet, as the sidecar node-driver-registrar does. It is a program of its own because it has to be in Go: the
// stock kubelet's client sends the path of the registration socket as the authority of its requests, which Rust's HTTP/2 server rejects.
// The registration socket exists as long as this process, unless it is killed.
package main

import (
	"context"
	"errors"
	"flag"
	"io/fs"
	"log"
	"net"
	"os"
	"os/signal"
	"path/filepath"
	"syscall"
	"time"

	"google.golang.org/grpc"
	registration "k8s.io/kubelet/pkg/apis/pluginregistration/v1"
)

var (
	name     = flag.String("name", "", "name of the driver")
	registry = flag.String("registration", "", "registration socket, in the kubelet's plugins_registry")
	endpoint = flag.String("endpoint", "", "socket of the driver's services")
)

type registrar struct {
	registration.UnimplementedRegistrationServer
}

func (registrar) GetInfo(context.Context, *registration.InfoRequest) (*registration.PluginInfo, error) {
	return &registration.PluginInfo{
		Type:              registration.CSIPlugin,
		Name:              *name,
		Endpoint:          *endpoint,
		SupportedVersions: []string{"1.0.0"},
	}, nil
}

func (registrar) NotifyRegistrationStatus(
	_ context.Context, outcome *registration.RegistrationStatus,
) (*registration.RegistrationStatusResponse, error) {
	log.Printf("registered: %v %s", outcome.PluginRegistered, outcome.Error)
	return &registration.RegistrationStatusResponse{}, nil
}

// Waits until the driver listens, because a kubelet asks it about the node at once.
func waitForDriver() {
	for {
		connection, err := net.Dial("unix", *endpoint)
		if err == nil {
			_ = connection.Close()
			return
		}
		time.Sleep(20 * time.Millisecond)
	}
}

func main() {
	flag.Parse()
	waitForDriver()
	if err := os.MkdirAll(filepath.Dir(*registry), 0o755); err != nil {
		log.Fatal(err)
	}
	// Of a registrar that was killed.
	if err := os.Remove(*registry); err != nil && !errors.Is(err, fs.ErrNotExist) {
		log.Fatal(err)
	}
	listener, err := net.Listen("unix", *registry)
	if err != nil {
		log.Fatal(err)
	}
	service := grpc.NewServer()
	registration.RegisterRegistrationServer(service, registrar{})
	end, stop := signal.NotifyContext(context.Background(), syscall.SIGTERM)
	defer stop()
	go func() {
		<-end.Done()
		service.Stop() // Closes the listener, which removes the socket.
	}()
	if err := service.Serve(listener); err != nil {
		log.Fatal(err)
	}
}
