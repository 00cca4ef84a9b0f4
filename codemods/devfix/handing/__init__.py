"""What `hand-on-device` needs: who takes a device, who leaves it out, and what could be handed on."""
